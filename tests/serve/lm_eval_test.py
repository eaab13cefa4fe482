"""lm-eval 0.4.13's `local-completions` with nothing but a URL against `satformer serve`, compared with `satformer eval`
on the fixtures of tests/eval: log-likelihoods, greedy flags and generations of each document. Needs
`pip install lm-eval==0.4.13 aiohttp requests tenacity` (neither torch nor transformers).
Usage: lm_eval_test.py SATFORMER [MODEL] [--tasks a,b]"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

os.environ["DISABLE_MULTIPROC"] = "1"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "eval")]
from server import ENVIRONMENT, FIXTURES, Server, make_model

try:
    import compare_with_lm_eval as theirs  # has lm-eval read the fixtures
    from lm_eval.evaluator import simple_evaluate
except ImportError as error:
    print(f"skipped: {error} (pip install lm-eval==0.4.13 aiohttp requests tenacity)")
    sys.exit(77)


def satformer_eval(program, model, task, context, folder):
    subprocess.run([program, "eval", "--model", model, "--tasks", task, "--data-dir", FIXTURES, "-o", folder,
                    "--log-samples", "--context", str(context)], check=True, env=ENVIRONMENT,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (path,) = glob.glob(os.path.join(folder, "*", f"samples_{task}_*.jsonl"))
    with open(path) as f:
        return [json.loads(line) for line in f]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("satformer")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--tasks", default=",".join(theirs.TASKS))
    arguments = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        # lm-eval takes 2048 for the longest input; more tokens of context than that change nothing.
        model = arguments.model or make_model(arguments.satformer, folder, context=2048)
        server = Server(arguments.satformer, model).wait_ready()
        loading = server.metrics()['responses_total{class="5xx"}']  # /health, before
        print("| task | documents | requests | largest log-likelihood difference | texts that differ |\n|---|--:|--:|--:|--:|")
        for concurrent, batch, tasks in ((1, 4, arguments.tasks.split(",")), (8, 1, ["hellaswag", "triviaqa"])):
            for task in tasks:
                run = simple_evaluate(
                    model="local-completions", tasks=[task], num_fewshot=0, verbosity="ERROR", batch_size=batch,
                    model_args=dict(base_url=server.url + "/v1/completions", model="any", num_concurrent=concurrent))
                his = sorted(run["samples"][task], key=lambda s: s["doc_id"])
                with tempfile.TemporaryDirectory(dir=folder) as out:
                    # Its inputs and last targets are 2047 tokens at most, one less than ours.
                    ours = satformer_eval(arguments.satformer, model, task, 2046, out)
                largest, texts, requests = 0.0, 0, 0
                for a, b in zip(his, ours, strict=True):
                    for x, y in zip(a["resps"], b["resps"], strict=True):
                        requests += 1
                        x, y = x[0], y[0]
                        if isinstance(x, str):
                            # An API's text goes on where the prompt ended, with the space; eval's begins anew.
                            if x.removeprefix(" ") != y.removeprefix(" "):
                                texts += 1
                                problems.append(f"{task} {a['doc_id']}: {x!r} and {y!r}")
                            continue
                        x, greedy = (x[0], x[1]) if isinstance(x, (list, tuple)) else (x, None)
                        y, mine = (float(y[0]), y[1]) if isinstance(y, (list, tuple)) else (float(y), None)
                        largest = max(largest, abs(x - y))
                        if abs(x - y) > 1e-3 or (greedy is not None and str(greedy) != str(mine)):
                            problems.append(f"{task} {a['doc_id']}: {x}, {greedy} and {y}, {mine}")
                print(f"| {task}{'' if concurrent == 1 else f', {concurrent} at once'} | {len(his)} | {requests} | "
                      f"{largest:.1e} | {texts} |", flush=True)
        metrics = server.metrics()
        if metrics['responses_total{class="5xx"}'] > loading:
            problems.append("answers of class 5xx")
        server.stop()
    print("\n" + ("\n".join(problems[:20]) if problems else "no difference"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
