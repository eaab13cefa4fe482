"""Runs lm-eval 0.4.13's own tasks and `satformer eval` on the same documents with the same model, and compares every
prompt, log-likelihood, answer, metric and standard error. Needs `pip install lm-eval==0.4.13 sentencepiece`.
Usage: compare_with_lm_eval.py SATFORMER MODEL_FOLDER [--tasks a,b] [--max-gen-toks N]"""
import argparse
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("DISABLE_MULTIPROC", "1")
import datasets

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "fixtures")
# Data set of lm-eval: files of its splits among the fixtures.
FILES = {
    "Rowan/hellaswag": {"validation": "hellaswag_val*", "train": "hellaswag_train*"},
    "baber/piqa": {"validation": "piqa/validation*", "train": "piqa/train*"},
    "allenai/ai2_arc:ARC-Easy": {"test": "arc_easy_test*", "train": "arc_easy_train*", "validation": "arc_easy_train*"},
    "allenai/ai2_arc:ARC-Challenge": {"test": "ARC-Challenge/test*", "train": "ARC-Challenge/train*",
                                      "validation": "ARC-Challenge/train*"},
    "allenai/winogrande": {"validation": "winogrande/winogrande_xl/val*", "train": "winogrande/winogrande_xl/train*"},
    "allenai/openbookqa": {"test": "openbookqa_test*", "train": "openbookqa_train*", "validation": "openbookqa_train*"},
    "aps/super_glue": {"validation": "boolq_validation*", "train": "boolq_train*"},
    "allenai/sciq": {"test": "sciq_test*", "train": "sciq_train*", "validation": "sciq_train*"},
    "EleutherAI/lambada_openai": {"test": "lambada_openai_test*"},
    "hazyresearch/based-swde-v2": {"validation": "swde/validation*"},
    "hazyresearch/based-fda": {"validation": "based-fda/validation*"},
    "hazyresearch/based-squad": {"validation": "squad_completion*"},
    "mandarjoshi/trivia_qa": {"validation": "trivia_qa/rc.nocontext/val*", "train": "trivia_qa/rc.nocontext/train*"},
    "google-research-datasets/nq_open": {"validation": "nq_open_validation*", "train": "nq_open_train*"},
    "EleutherAI/drop": {"validation": "drop_validation*", "train": "drop_train*"},
}
TASKS = ["hellaswag", "piqa", "arc_easy", "arc_challenge", "winogrande", "openbookqa", "boolq", "sciq",
         "lambada_openai", "swde", "fda", "squad_completion", "triviaqa", "nq_open", "drop"]
ZERO_SHOT_ONLY = {"swde", "fda", "squad_completion"}  # lm-eval stops with a TypeError on examples of these

real_load_dataset = datasets.load_dataset


def load_fixture(path=None, name=None, **kwargs):
    files = FILES.get(f"{path}:{name}") or FILES[path]
    found = {split: sorted(glob.glob(os.path.join(FIXTURES, pattern))) for split, pattern in files.items()}
    return real_load_dataset("json", data_files=found)


datasets.load_dataset = load_fixture

import lm_eval  # noqa: E402  (after the patch, which its modules must see)
from lm_eval.evaluator import simple_evaluate  # noqa: E402

sys.path.insert(0, HERE)
from lm_eval_adapter import Satformer  # noqa: E402


def run_satformer(program, model, task, shots, folder, options):
    subprocess.run([program, "eval", "--model", model, "--tasks", task, "--data-dir", FIXTURES, "-o", folder,
                    "--log-samples", "--num-fewshot", str(shots), *options], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (results,) = glob.glob(os.path.join(folder, "*", "results_*.json"))
    (samples,) = glob.glob(os.path.join(folder, "*", f"samples_{task}_*.jsonl"))
    with open(results) as f, open(samples) as g:
        return json.load(f), [json.loads(line) for line in g]


def arguments_of(sample):
    return [tuple(value.values()) for value in sample["arguments"].values()]


def same(a, b, tolerance=0.0):
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return abs(a - b) <= tolerance or (math.isnan(a) and math.isnan(b))


def compare(task, shots, theirs, ours, our_samples, report):
    name = f"{task} {shots}-shot"
    problems = []
    their_samples = sorted(theirs["samples"][task], key=lambda s: s["doc_id"])
    if len(their_samples) != len(our_samples):
        problems.append(f"{len(their_samples)} and {len(our_samples)} documents")
    largest, hashes = 0.0, 0
    for a, b in zip(their_samples, our_samples):
        where = f"document {a['doc_id']}"
        mine, his = arguments_of(b), [tuple(argument) for argument in a["arguments"]]
        if [x[0] for x in his] != [x[0] for x in mine]:
            problems.append(f"{where}: prompts {his[0][0]!r} and {mine[0][0]!r}")
        elif isinstance(his[0][-1], str) and his != mine:
            problems.append(f"{where}: continuations {his!r} and {mine!r}")
        for x, y in zip(a["filtered_resps"], b["filtered_resps"]):
            if isinstance(x, str):
                if x != y:
                    problems.append(f"{where}: answers {x!r} and {y!r}")
                continue
            largest = max(largest, abs(x[0] - float(y[0])))
            if str(x[1]) != y[1]:
                problems.append(f"{where}: greedy {x[1]} and {y[1]}")
        for metric in a["metrics"]:
            if metric not in b or not same(a[metric], b[metric], 1e-4):
                problems.append(f"{where}: {metric} {a[metric]} and {b.get(metric)}")
        if str(a["target"]) != b["target"]:
            problems.append(f"{where}: target {a['target']!r} and {b['target']!r}")
        hashes += all(a[key] == b[key] for key in ("doc_hash", "prompt_hash", "target_hash"))
    if largest > 1e-4:
        problems.append(f"log-likelihoods differ by {largest}")
    numbers = []
    for key, value in theirs["results"][task].items():
        if "," not in key:
            continue
        if not same(value, ours["results"][task].get(key, "missing"), 1e-4 * max(1.0, abs(value) if key.startswith(
                "perplexity") else 1.0)):
            problems.append(f"{key}: {value} and {ours['results'][task].get(key)}")
        if "_stderr" not in key:
            numbers.append(f"{key.split(',')[0]} {value:.4f}")
    for key in ("versions", "n-shot"):
        if str(theirs[key][task]) != str(ours[key][task]):
            problems.append(f"{key}: {theirs[key][task]} and {ours[key][task]}")
    print(f"| {task} | {shots} | {len(our_samples)} | {largest:.1e} | {hashes}/{len(our_samples)} | "
          f"{', '.join(numbers)} | {'same' if not problems else 'DIFFERENT'} |", flush=True)
    report += [f"{name}: {problem}" for problem in problems[:5]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("satformer")
    parser.add_argument("model")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--options", default="", help="further options of eval and score, as one string")
    arguments = parser.parse_args()
    options = arguments.options.split()
    adapter = Satformer(arguments.satformer, arguments.model, arguments.model, options)
    report = []
    print(f"lm-eval {lm_eval.__version__}\n")
    print("| task | shots | documents | largest log-likelihood difference | equal document, prompt and target hashes "
          "| metrics | |\n|---|--:|--:|--:|--:|---|---|")
    for task in arguments.tasks.split(","):
        for shots in (0,) if task in ZERO_SHOT_ONLY else (0, 2):
            theirs = simple_evaluate(model=adapter, tasks=[task], num_fewshot=shots, verbosity="ERROR")
            with tempfile.TemporaryDirectory() as folder:
                ours, samples = run_satformer(arguments.satformer, arguments.model, task, shots, folder, options)
            compare(task, shots, theirs, ours, samples, report)
    print("\n" + ("\n".join(report) if report else "no difference"))
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())
