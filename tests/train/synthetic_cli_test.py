#!/usr/bin/env python3
"""Generated tasks through the real binary: files, streams, evaluation, bad input.

Usage: synthetic_cli_test.py SATFORMER [unittest arguments]
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SATFORMER = ""
MODEL = [
    "--model.config_overrides.hidden_size=32", "--model.config_overrides.num_hidden_layers=2",
    "--model.config_overrides.num_heads=2", "--model.config_overrides.intermediate_size=48",
    "--training.batch_size=4", "--training.gradient_accumulation_steps=1", "--training.max_tokens=0.000002048",
    "--training.warmup_tokens=0", "--logging.eval_interval=4", "--logging.eval_iters=1", "--threads=1",
]  # fmt: skip
TASK = ["--model.config_overrides.vocab_size=128", "--data.seq_length=32", "--data.synthetic.task=mqar",
        "--data.synthetic.pairs=4", "--data.synthetic.val_examples=50"]


class SyntheticCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="satformer-synthetic-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.model = os.path.join(cls.folder, "run")
        cls.trained = cls.run_program("train", *MODEL, *TASK, f"--checkpointing.checkpoint_dir={cls.model}")
        cls.data = os.path.join(cls.folder, "data")
        cls.prepared = cls.run_program("prepare", "--synthetic", "mqar", "-o", cls.data, "--vocab-size", "128", "--seq_length=32",
                                       "--pairs=4", "--examples=100", "--val-examples", "50", "--seed=42")

    @classmethod
    def run_program(cls, *arguments, code=0):
        done = subprocess.run([SATFORMER, *arguments], capture_output=True, text=True, timeout=300, cwd=cls.folder)
        if done.returncode != code:
            raise AssertionError(f"{arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def refused(self, code, part, *arguments):
        text = self.run_program(*arguments, code=code)
        self.assertIn(part, text)
        self.assertEqual(len(text.strip().splitlines()), 1, text)

    def test_training_reports_accuracy(self):
        self.assertIn("accuracy ", self.trained)
        with open(self.model + "/metrics.jsonl") as file:
            last = json.loads(file.readlines()[-1])
        self.assertEqual(last["val/accuracy"], last["val/accuracy/answer"])
        self.assertEqual(last["val/windows"], 50)
        self.assertGreater(last["progress/seconds"], 0)

    def test_shards_give_what_the_validation_gave(self):
        self.assertIn("train_00000.bin", self.prepared)
        output = os.path.join(self.folder, "eval.json")
        text = self.run_program("eval", "--model", self.model, "--data-dir", self.data, "-o", output)
        self.assertIn("accuracy ", text)
        with open(output) as file:
            result = json.load(file)
        with open(self.model + "/metrics.jsonl") as file:
            last = json.loads(file.readlines()[-1])
        self.assertEqual(result["targets"], 200)
        self.assertAlmostEqual(result["loss"], last["val/loss"], 5)
        self.assertEqual(result["accuracy"], last["val/accuracy"])
        text = self.run_program("eval", "--model", self.model, "--data-dir", self.data, "--targets=all")
        self.assertIn("1600 targets", text)

    def test_marks_are_the_kinds_of_an_analysis(self):
        out = os.path.join(self.folder, "analysis")
        self.run_program("analyze", "--model", self.model, "--data", self.data, "--limit=20", "-o", out,
                         "--studies=kinds,tokens,interventions,lens", "--edit=zero@kinds=value")
        with open(os.path.join(out, "analysis.json")) as file:
            kinds = json.load(file)["studies"]["kinds"]["kinds"]
        self.assertEqual([k["kind"] for k in kinds], ["noise", "key", "value", "query", "answer"])
        self.assertEqual([k["tokens"] for k in kinds if k["kind"] in ("key", "value")], [80, 80])
        self.refused(4, "tokenizer", "analyze", "--model", self.model, "--data", self.data, "--prompt=x")

    def test_tasks(self):
        self.assertIn("mixed_recall", self.run_program("eval", "--list-tasks"))
        output = os.path.join(self.folder, "results")
        self.run_program("eval", "--model", self.model, "--tasks", "mqar,selective_copy", "--output", output, "--log-samples",
                         "--limit=20", "--synthetic.pairs=3")
        with open(glob.glob(output + "/*/results_*.json")[0]) as file:
            results = json.load(file)
        for task in ("mqar", "selective_copy"):
            self.assertIn("acc_stderr,none", results["results"][task])
            self.assertEqual(results["configs"][task]["metadata"]["synthetic"]["pairs"], 3)
            self.assertEqual(results["configs"][task]["metadata"]["synthetic"]["seq_length"], 32)
            with open(glob.glob(output + f"/*/samples_{task}_*.jsonl")[0]) as file:
                samples = [json.loads(line) for line in file]
            self.assertEqual(len(samples), 20)
            self.assertEqual(len(samples[0]["target"].split()), 3)

    def test_what_a_task_was_trained_with_is_its_default(self):
        output = os.path.join(self.folder, "defaults")
        self.run_program("eval", "--model", self.model, "--tasks=mqar", "--output", output)
        with open(glob.glob(output + "/*/results_*.json")[0]) as file:
            results = json.load(file)
        self.assertEqual(results["configs"]["mqar"]["metadata"]["synthetic"]["pairs"], 4)
        self.assertEqual(results["n-samples"]["mqar"]["effective"], 50)

    def test_stories_with_a_trained_tokenizer(self):
        data = os.path.join(self.folder, "stories")
        self.run_program("prepare", "--synthetic=recall_stories", "-o", data, "--train-tokenizer=400", "--seq-length=160",
                         "--pairs=4", "--examples=30", "--val-examples=5")
        run = os.path.join(self.folder, "stories-run")
        self.run_program("train", *MODEL, f"--data.data_dir={data}", "--data.seq_length=160",
                         "--model.config_overrides.vocab_size=400", f"--checkpointing.checkpoint_dir={run}")
        text = self.run_program("eval", "--model", run, "--tasks", "recall_stories", "--synthetic.pairs=4",
                                "--synthetic.val_examples=8")
        self.assertIn("recall_stories", text)

    def test_bad_input(self):
        prepare = ["prepare", "-o", os.path.join(self.folder, "bad"), "--synthetic"]
        self.refused(3, "Did you mean 'mqar'?", *prepare, "mqarr")
        self.refused(3, "at least 68", *prepare, "mqar", "--pairs=17")
        self.refused(3, "vocab_size = 2", *prepare, "mqar", "--vocab-size=2")
        self.refused(2, "no effect on mqar", *prepare, "mqar", "--key-length=3")
        self.refused(2, "no tokenizer", *prepare, "mqar", "--tokenizer=byte")
        self.refused(2, "exactly one of", *prepare, "recall_stories")
        self.refused(2, "Did you mean '--pairs'?", *prepare, "mqar", "--pars=3")
        self.assertFalse(glob.glob(self.folder + "/bad/*"))
        self.refused(4, "--overwrite", "prepare", "--synthetic=mqar", "-o", self.data)
        ask = ["eval", "--model", self.model, "--tasks"]
        self.refused(2, "Did you mean 'mqar'?", *ask, "mqra")
        self.refused(2, "no effect", *ask, "mqar", "--synthetic.key_length=3")
        self.refused(3, "unknown key", *ask, "mqar", "--synthetic.pars=3")
        self.refused(2, "Did you mean '--limit'?", *ask, "mqar", "--limt=3")
        self.refused(3, "longest context", *ask, "induction", "--synthetic.seq_length=100000")
        self.refused(3, "tokenizer", *ask, "recall_stories")
        shards = ["--data-dir", self.data]
        self.refused(3, "examples of 32 tokens", "eval", "--model", self.model, *shards, "--seq-length=16")
        run = f"--checkpointing.checkpoint_dir={self.folder}/other"
        self.refused(4, "outside the vocabulary of 64", "train", *MODEL, f"--data.data_dir={self.data}", "--data.seq_length=32",
                     "--model.config_overrides.vocab_size=64", run, "--tokenizer.name_or_path=null")
        self.assertFalse(os.path.exists(self.folder + "/other/checkpoints"))


if __name__ == "__main__":
    SATFORMER = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
