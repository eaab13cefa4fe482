"""`satformer eval --tasks`, `--text`, `--compare` and `satformer score` through the program, on a small trained model.
Usage: eval_cli_test.py SATFORMER"""
import glob
import gzip
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SATFORMER = sys.argv[1]
FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")


def run(*arguments, code=0):
    result = subprocess.run([SATFORMER, *map(str, arguments)], capture_output=True, env=ENVIRONMENT, timeout=300)
    out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
    if result.returncode != code:
        raise AssertionError(f"{arguments} exited with {result.returncode}, expected {code}\n{out}\n{err}")
    return out, err


class Eval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="satformer-eval-")
        data, config = os.path.join(cls.folder, "data"), os.path.join(cls.folder, "config.json")
        text = os.path.join(cls.folder, "text.jsonl")
        with open(os.path.join(FIXTURES, "prose.txt")) as f, open(text, "w") as out:
            for line in f.read().split("\n\n") * 20:
                out.write(json.dumps({"text": line}) + "\n")
        run("prepare", text, "--tokenizer", "byte", "--val-fraction", "0.1", "-o", data)
        cls.model = os.path.join(cls.folder, "run")
        with open(config, "w") as f:
            json.dump({
                "model": {"class_name": "SATFormerForCausalLM", "config_overrides": dict(
                    vocab_size=259, hidden_size=32, num_hidden_layers=2, num_heads=2, qk_norm=True,
                    intermediate_size=48, tie_word_embeddings=True, max_position_embeddings=768)},
                "data": {"data_dir": data, "seq_length": 32},
                "training": {"batch_size": 4, "gradient_accumulation_steps": 1, "learning_rate": 5e-3, "min_lr": 1e-3,
                             "warmup_tokens": 1e-6, "max_tokens": 128 * 40 / 1e9, "dtype": "float32"},
                "checkpointing": {"checkpoint_dir": cls.model, "checkpoint_interval": 0},
                "logging": {"log_interval": 20, "eval_interval": 0}}, f)
        run("train", "--config", config)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def eval(self, *options, code=0):
        return run("eval", "--model", self.model, *options, code=code)

    def evaluate(self, tasks, *options):
        """results and samples by task"""
        output = tempfile.mkdtemp(dir=self.folder)
        self.eval("--tasks", tasks, "--data-dir", FIXTURES, "-o", output, "--log-samples", *options)
        (path,) = glob.glob(os.path.join(output, "*", "results_*.json"))
        with open(path) as f:
            results = json.load(f)
        samples = {}
        for task in results["configs"]:
            (found,) = glob.glob(os.path.join(output, "*", f"samples_{task}_*.jsonl"))
            with open(found) as f:
                samples[task] = [json.loads(line) for line in f]
        self.assertFalse(glob.glob(os.path.join(output, "*", "unfinished_*")))
        return results, samples, path

    def score(self, lines, *options, code=0):
        path = os.path.join(self.folder, "score.jsonl")
        with open(path, "w") as f:
            f.writelines(json.dumps(line) + "\n" for line in lines)
        out, err = run("score", "--model", self.model, path, *options, code=code)
        return [json.loads(line) for line in out.splitlines()] if code == 0 else err

    def test_samples_hold_what_the_metrics_come_from(self):
        results, samples, _ = self.evaluate("hellaswag,lambada_openai,winogrande")
        for task in ("hellaswag", "winogrande"):
            right = []
            for sample in samples[task]:
                values = [float(value) for value, _ in sample["filtered_resps"]]
                gold = sample["doc"]["gold"] if task == "hellaswag" else int(sample["doc"]["answer"]) - 1
                right.append(float(values.index(max(values)) == gold))
                self.assertEqual(sample["acc"], right[-1])
            entry, mean = results["results"][task], sum(right) / len(right)
            self.assertAlmostEqual(entry["acc,none"], mean)
            self.assertAlmostEqual(entry["acc_stderr,none"], math.sqrt(mean * (1 - mean) / (len(right) - 1)))
        values = [sample["perplexity"] for sample in samples["lambada_openai"]]
        self.assertAlmostEqual(results["results"]["lambada_openai"]["perplexity,none"],
                               math.exp(-sum(values) / len(values)), places=6)

    def test_scores_of_the_same_text_agree(self):
        _, samples, _ = self.evaluate("piqa")
        lines = []
        for sample in samples["piqa"]:
            arguments = list(sample["arguments"].values())
            lines.append({"context": arguments[0]["arg_0"], "choices": [a["arg_1"] for a in arguments]})
        for answer, sample in zip(self.score(lines), samples["piqa"]):
            for a, (b, _) in zip(answer["loglikelihoods"], sample["filtered_resps"]):
                self.assertAlmostEqual(a, float(b), places=3)

    def test_score_takes_text_ids_and_prompts(self):
        answers = self.score([
            {"id": "x", "context": "Anna went to ", "continuation": "Leeds"},
            {"context_ids": [3 + b for b in b"Anna went to"], "continuation_ids": [3 + b for b in b" Leeds"]},
            {"text": "Anna went to Leeds"},
            {"context": "Anna went to", "until": ["\n", "."], "max_gen_toks": 12},
            {"context": "Anna", "choices": [" went", " stayed"]}])
        self.assertEqual(answers[0]["id"], "x")
        self.assertAlmostEqual(answers[0]["loglikelihood"], answers[1]["loglikelihood"], places=4)
        self.assertEqual([a.get("tokens") for a in answers], [6, 6, 18, None, 12])
        self.assertLess(answers[2]["loglikelihood"], answers[0]["loglikelihood"])
        self.assertNotIn(".", answers[3]["text"])
        self.assertEqual(len(answers[4]["loglikelihoods"]), 2)

    def test_score_names_bad_lines_before_the_work(self):
        good = {"context": "a", "continuation": "b"}
        for bad, words in [({"context": "a"}, ["continuation"]), ({"context": "a", "continuation": ""}, ["no token"]),
                           ({"context": "a", "choices": []}, ["choices"]), ({"contexd": "a"}, ["contexd", "'context'"]),
                           ({"context": "a", "continuation": "b" * 800}, ["800", "768"]),
                           ({"context_ids": [1], "continuation_ids": [259]}, ["259"]),
                           ({"context": "a", "continuation": "b", "choices": ["c"]}, ["exclude"]),
                           ({"context": "a", "until": ".", "max_gen_toks": 768}, ["768", ":2"])]:
            err = self.score([good, bad], code=4)
            for word in words:
                self.assertIn(word, err)

    def test_score_never_replaces_its_input(self):
        self.score([{"context": "a", "continuation": "b"}])
        path = os.path.join(self.folder, "score.jsonl")
        self.assertIn("input itself", run("score", "--model", self.model, path, "--output", path, code=2)[1])
        with open(path) as f:
            self.assertIn("continuation", f.read())

    def test_groups_shots_and_limits(self):
        results, samples, _ = self.evaluate("ai2_arc", "--num-fewshot", 2, "--limit", 5)
        entries = results["results"]
        mean = (entries["arc_easy"]["acc,none"] + entries["arc_challenge"]["acc,none"]) / 2
        self.assertAlmostEqual(results["groups"]["ai2_arc"]["acc,none"], mean)
        self.assertEqual(results["n-samples"]["arc_easy"], {"original": 12, "effective": 5})
        self.assertEqual(results["n-shot"]["arc_easy"], 2)
        prompt = samples["arc_easy"][0]["arguments"]["gen_args_0"]["arg_0"]
        self.assertEqual(prompt.count("Question: "), 3)

    def test_retrieval_and_custom_tasks(self):
        own = os.path.join(FIXTURES, "own")
        results, samples, _ = self.evaluate(
            f"swde,nq@jrt-512_twice,drop,msmarco,{own}/colours.json,{own}/towns.json", "--max-gen-toks", 16)
        self.assertEqual(results["versions"]["swde"], 1)
        self.assertEqual(results["versions"]["nq@jrt-512_twice"], "jrt-twice")
        self.assertEqual(results["versions"]["colours"], 2)
        self.assertIn("f1,none", results["results"]["drop"])
        self.assertIn("mrr@10,none", results["results"]["msmarco"])
        self.assertIn("acc_norm,none", results["results"]["colours"])
        self.assertIn("f1,none", results["results"]["towns"])
        self.assertIn("swde", results["recall_by_distance"])
        self.assertTrue(all("\n" not in s["resps"][0][0] for s in samples["swde"]))

    def test_text(self):
        prose = os.path.join(FIXTURES, "prose.txt")
        out, _ = self.eval("--text", prose, "--stride", 64, "--context", 128)
        for metric in ("token_perplexity", "byte_perplexity", "word_perplexity", "bits_per_byte"):
            self.assertIn(metric, out)
        zipped = os.path.join(self.folder, "docs.jsonl.gz")
        with gzip.open(zipped, "wt") as f:
            f.write(json.dumps({"body": "Anna went to Leeds."}) + "\n" + json.dumps({"body": "Tom too."}) + "\n")
        out, _ = self.eval("--text", zipped, "--text", prose, "--column", "body", "--each")
        self.assertIn("docs.jsonl.gz", out)
        self.assertIn("prose.txt", out)

    def test_compare(self):
        _, _, first = self.evaluate("piqa,lambada_openai")
        _, _, second = self.evaluate("piqa,lambada_openai", "--num-fewshot", 1)
        out, _ = run("eval", "--compare", first, second)
        self.assertEqual(len(out.splitlines()), 2 + 4)
        self.assertIn("piqa", out)
        run("eval", "--compare", first, code=2)
        run("eval", "--compare", first, os.path.join(self.folder, "nothing.json"), code=6)

    def test_a_killed_run_goes_on(self):
        output = os.path.join(self.folder, "killed")
        command = [SATFORMER, "eval", "--model", self.model, "--tasks", "swde,piqa", "--data-dir", FIXTURES,
                   "-o", output, "--batch-size", "1", "--max-gen-toks", "300"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        deadline = time.time() + 120
        while time.time() < deadline and process.poll() is None:
            logs = glob.glob(os.path.join(output, "*", "unfinished_swde_*"))
            if logs and os.path.getsize(logs[0]) > 0:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        result = subprocess.run(command, capture_output=True, env=ENVIRONMENT, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr.decode(), r"swde: \d+ documents? taken from")
        (path,) = glob.glob(os.path.join(output, "*", "results_*.json"))
        with open(path) as f:
            self.assertEqual(json.load(f)["n-samples"]["swde"]["effective"], 10)

    def start_ranks(self, size, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = []
        for rank in range(size):
            variables = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size,
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            processes.append(subprocess.Popen(
                [SATFORMER, "eval", "--model", self.model, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**ENVIRONMENT, **{name: str(value) for name, value in variables.items()}}, text=True))
            self.addCleanup(processes[-1].kill)
        return processes

    def test_ranks_share_the_documents(self):
        tasks = "swde,piqa,induction"
        alone, samples, _ = self.evaluate(tasks)
        output = os.path.join(self.folder, "ranks")
        arguments = ["--tasks", tasks, "--data-dir", FIXTURES, "-o", output, "--log-samples"]
        # Killed when each of two ranks has answered something; three go on.
        processes = self.start_ranks(2, *arguments, "--batch-size", "1")
        deadline = time.time() + 60
        logs = lambda: [path for path in glob.glob(os.path.join(output, "*", "unfinished_swde_*")) if os.path.getsize(path)]
        while time.time() < deadline and len(logs()) < 2 and processes[0].poll() is None:
            time.sleep(0.005)
        for process in processes:
            process.kill()
            process.communicate()
        self.assertEqual(len(logs()), 2)
        processes = self.start_ranks(3, *arguments)
        outputs = [process.communicate(timeout=120) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0, 0], outputs)
        self.assertRegex(outputs[0][1], r"swde: \d+ documents? taken from")
        self.assertEqual([outputs[1][0], outputs[2][0]], ["", ""])  # rank 0 alone reports
        (path,) = glob.glob(os.path.join(output, "*", "results_*.json"))
        self.assertEqual(glob.glob(os.path.join(output, "*", "unfinished_*")), [])
        with open(path) as f:
            shared = json.load(f)
        for task in alone["results"]:
            for metric, value in alone["results"][task].items():
                if isinstance(value, float):
                    self.assertAlmostEqual(shared["results"][task][metric], value, delta=1e-6, msg=f"{task} {metric}")
            (found,) = glob.glob(os.path.join(output, "*", f"samples_{task}_*.jsonl"))
            with open(found) as f:
                lines = [json.loads(line) for line in f]
            self.assertEqual([line["doc_id"] for line in lines], [line["doc_id"] for line in samples[task]])
            for one, other in zip(lines, samples[task]):
                self.assertEqual(one["arguments"], other["arguments"])
                if task == "swde":
                    self.assertEqual(one["resps"], other["resps"])

    def test_mistakes(self):
        for options, code, words in [
                (["--tasks", "pica", "--data-dir", FIXTURES], 2, ["pica", "'piqa'"]),
                (["--tasks", "piqa"], 2, ["--data-dir"]),
                (["--tasks", "piqa", "--data-dir", self.folder], 4, ["piqa"]),
                (["--tasks", "piqa", "--data-dir", FIXTURES, "--limit", "-1"], 2, ["--limit"]),
                (["--tasks", "piqa", "--data-dir", FIXTURES, "--log-samples"], 2, ["--output"]),
                (["--tasks", "piqa", "--data-dir", FIXTURES, "--num-fewshot", "100"], 4, ["100", "25"]),
                (["--tasks", "squad_completion", "--data-dir", FIXTURES, "--context", "200"], 3, ["256", "200"]),
                (["--tasks", "piqa", "--data-dir", FIXTURES, "--context", "4096"], 3, ["4096", "768"]),
                (["--text", "nothing.txt"], 4, ["nothing.txt"]),
                (["--text", os.path.join(FIXTURES, "prose.txt"), "--stride", "999"], 2, ["999", "768"]),
                (["--tasks", "piqa", "--data-dir", FIXTURES, "--stride", "4"], 2, ["--stride"]),
                (["--tasks", "missing.json"], 6, ["missing.json"])]:
            _, err = self.eval(*options, code=code)
            self.assertEqual(len(err.strip().splitlines()), 1, err)
            for word in words:
                self.assertIn(word, err)

    def test_bad_documents_are_left_out(self):
        folder = tempfile.mkdtemp(dir=self.folder)
        with open(os.path.join(FIXTURES, "boolq_validation.jsonl")) as f, \
                open(os.path.join(folder, "boolq.jsonl"), "w") as out:
            lines = f.readlines()
            out.write("".join(lines[:3]) + '{"question": "q", "passage": null, "label": 1}\n{bad\n' + "".join(lines[3:]))
        output = os.path.join(folder, "out", "named.json")
        out, err = self.eval("--tasks", "boolq", "--data-dir", folder, "-o", output)
        self.assertIn("2 documents were left out", out)
        self.assertIn("boolq.jsonl:4", err)
        (path,) = glob.glob(os.path.join(folder, "out", "named_*.json"))
        with open(path) as f:
            results = json.load(f)
        self.assertEqual([d["doc_id"] for d in results["left_out"]["boolq"]], [3, 4])
        self.assertEqual(results["n-samples"]["boolq"], {"original": 12, "effective": 10})

    def test_edits_reach_every_pass(self):
        data, shards = os.path.join(self.folder, "edit-eval.json"), os.path.join(self.folder, "data")

        def loss(*edit):
            self.eval("--data-dir", shards, "--output", data, *edit)
            with open(data) as f:
                return json.load(f)["loss"]

        lines = [{"context": "The ", "continuation": "old house"}, {"context": "", "continuation": "and then"}]
        scored = [line["loglikelihood"] for line in self.score(lines)]
        _, plain, _ = self.evaluate("piqa,squad_completion")
        answers = [[s["resps"] for s in plain[task]] for task in ("piqa", "squad_completion")]
        # An edit that changes nothing leaves every bit; one that changes the gates reaches each kind of request.
        for edit, same in (("scale=1", True), ("scale=-40", False)):
            options = ("--edit", edit)
            self.assertEqual(loss(*options) == loss(), same, edit)
            self.assertEqual([l["loglikelihood"] for l in self.score(lines, *options)] == scored, same, edit)
            results, samples, _ = self.evaluate("piqa,squad_completion", *options)
            self.assertEqual(results["config"]["edit"], {"edit": edit})
            for task, answer in zip(("piqa", "squad_completion"), answers):
                self.assertEqual([s["resps"] for s in samples[task]] == answer, same, (edit, task))
            texts = [run("generate", "--model", self.model, "--prompt", "The", "--temperature", "0", *o)[0]
                     for o in ((), options)]
            self.assertEqual(texts[0] == texts[1], same, edit)
        self.assertNotEqual(loss("--edit", "mean=head", "--edit-data", shards), loss())
        self.assertNotEqual(loss("--edit", "mean=head", "--edit-data", shards), loss("--edit", "zero"))
        for options, text in ((("--edit", "zer"), "Did you mean 'zero'"), (("--edit", "zero@layers=-1"), "'-1' is not"),
                              (("--edit", "shuffle"), "analyze"), (("--edit", "zero@kinds=x"), "kind"),
                              (("--edit", "mean"), "--edit-data"), (("--edit-data", shards), "--edit-data requires --edit,"),
                              (("--edit", "zero", "--edit-windows", "3"), "--edit-windows requires --edit-data"),
                              (("--edit", "zero", "--edit-data", shards), "does not use"),
                              (("--edit", "mean", "--edit-data", "nowhere"), "nowhere"),
                              (("--edit", "lambda1-zero"), "does not apply")):
            code = 4 if "nowhere" in options else 2
            out, err = run("eval", "--model", self.model, "--data-dir", shards, *options, code=code)
            self.assertIn(text, err)
            self.assertEqual(err.count("\n"), 1)

    def test_lists_and_help(self):
        out, _ = run("eval", "--list-tasks")
        for name in ("hellaswag", "swde@v0", "nq@jrt-2048_twice", "msmarco", "commonsense"):
            self.assertIn(name, out)
        out, _ = run("eval", "--tasks", "--help")
        self.assertIn("--num-fewshot", out)
        out, _ = run("eval", "--help")
        self.assertIn("--tasks --help", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
