#!/usr/bin/env python3
"""Training through the real binary: resume after kill -9, signals, a file-size limit, bad input.

Usage: train_cli_test.py SATFORMER [unittest arguments]
"""

import json
import math
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from small_data import VOCAB, sha256, write_shard  # noqa: E402

SATFORMER = ""
STEPS = 24
TOKENS_PER_STEP = 2 * 4 * 32


def read_metrics(run):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        for key in [key for key in line if key.startswith("perf/") or key == "progress/seconds"]:
            del line[key]
    return lines


def tensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, struct.unpack("<%df" % ((end - begin) // 4), data[begin:end])


class TrainCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="satformer-train-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data)
        write_shard(os.path.join(self.data, "train_00000.bin"), 3000, 1)
        write_shard(os.path.join(self.data, "train_00001.bin"), 1500, 2)
        write_shard(os.path.join(self.data, "val_00000.bin"), 1000, 3)

    def config(self, run, **training):
        """A file in the authors' layout."""
        path = os.path.join(self.folder, run + ".json")
        content = {
            "model": {
                "source": "local_class",
                "module": "models/satformer/modeling_satformer",
                "class_name": "SATFormerForCausalLM",
                "config_overrides": {
                    "vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 3, "num_heads": 4, "qk_norm": True,
                    "max_position_embeddings": 128, "intermediate_size": 96, "tie_word_embeddings": True,
                    "fuse_norm": True, "use_value_residual": True,
                },
            },
            "tokenizer": {"name_or_path": "somebody/a-tokenizer", "save_with_model": True},
            "data": {"data_dir": self.data, "train_prefix": "train", "val_prefix": "val", "seq_length": 32},
            "training": {
                "batch_size": 2, "gradient_accumulation_steps": 4, "learning_rate": 3e-3, "min_lr": 3e-4,
                "warmup_tokens": 4 * TOKENS_PER_STEP / 1e9, "max_tokens": STEPS * TOKENS_PER_STEP / 1e9,
                "dtype": "float32", "fused_adamw": True, **training,
            },
            "checkpointing": {"checkpoint_dir": os.path.join(self.folder, run), "checkpoint_interval": 4},
            "logging": {"log_interval": 1, "eval_interval": 10, "eval_iters": 1, "wandb_project": "p"},
            "system": {"seed": 7, "num_workers": 16, "threads": 1},
        }
        with open(path, "w") as out:
            json.dump(content, out)
        return path

    def run_dir(self, run):
        return os.path.join(self.folder, run)

    def start(self, config, *arguments, **options):
        command = [SATFORMER, "train", "--config", config, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", **options)

    def train(self, config, *arguments, code=0, **options):
        process = self.start(config, *arguments, **options)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, out + err)
        return out + err

    def checkpoints(self, run):
        folder = os.path.join(self.run_dir(run), "checkpoints")
        return sorted(name for name in os.listdir(folder) if name.startswith("step-")) if os.path.isdir(folder) else []

    def assert_same_run(self, a, b):
        for file in ("final/model.safetensors", "checkpoints/step-%08d/optimizer.safetensors" % STEPS):
            self.assertEqual(sha256(os.path.join(self.run_dir(a), file)), sha256(os.path.join(self.run_dir(b), file)), file)
        self.assertEqual(read_metrics(self.run_dir(a)), read_metrics(self.run_dir(b)))
        steps = [line["progress/step"] for line in read_metrics(self.run_dir(b))]
        self.assertEqual(steps, list(range(1, STEPS + 1)))


class Resume(TrainCase):
    def test_kill_9_at_several_points(self):
        whole = self.config("whole")
        self.train(whole, "--window-log", os.path.join(self.folder, "whole.log"))
        # Before the first checkpoint, between checkpoints, while one is written, in a later epoch.
        conditions = {
            "early": lambda run: len(self.lines(run)) >= 2,
            "between": lambda run: len(self.lines(run)) >= 7,
            "saving": lambda run: self.saving(run),
            "late": lambda run: len(self.lines(run)) >= STEPS - 3,
        }
        for name, condition in conditions.items():
            with self.subTest(name):
                config = self.config(name)
                process = self.start(config, "--resume", "auto")
                while process.poll() is None and not condition(name):
                    pass
                process.kill()
                process.communicate()
                log = os.path.join(self.folder, name + ".log")
                self.train(config, "--resume", "auto", "--window-log", log)
                self.assert_same_run("whole", name)
                with open(log) as resumed, open(os.path.join(self.folder, "whole.log")) as twin:
                    seen, expected = resumed.readlines(), twin.readlines()
                self.assertEqual(seen, expected[len(expected) - len(seen):])
                leftovers = [n for n in os.listdir(os.path.join(self.run_dir(name), "checkpoints")) if n.startswith(".")]
                self.assertEqual(leftovers, [])

    def lines(self, run):
        try:
            with open(os.path.join(self.run_dir(run), "metrics.jsonl")) as file:
                return file.readlines()
        except FileNotFoundError:
            return []

    def saving(self, run):
        try:
            names = os.listdir(os.path.join(self.run_dir(run), "checkpoints"))
        except FileNotFoundError:
            return False
        return any(name.startswith(".tmp-step-") for name in names) and any(name.startswith("step-") for name in names)

    def test_finished_run_resumes_to_itself(self):
        config = self.config("run")
        self.train(config)
        before = sha256(self.run_dir("run") + "/final/model.safetensors")
        self.train(config, "--resume", "auto")
        self.assertEqual(before, sha256(self.run_dir("run") + "/final/model.safetensors"))

    def test_steps_that_are_no_number_of_steps(self):
        config = self.config("run")
        for value, said in [("0", "at least 1"), ("-3", "at least 1"), ("1.5", "not a whole number"), ("9" * 20, "too large")]:
            self.assertIn(said, self.train(config, "--max-steps", value, code=2))

    def test_folder_with_checkpoints_is_refused(self):
        config = self.config("run")
        self.train(config, "--max-steps", "4")
        self.assertIn("--resume auto", self.train(config, code=2))
        self.train(config, "--overwrite", "--max-steps", "2")
        self.assertEqual(self.checkpoints("run"), ["step-00000002"])

    def test_damaged_checkpoint(self):
        config = self.config("run")
        self.train(config, "--max-steps", "4")
        path = self.run_dir("run") + "/checkpoints/step-00000004/optimizer.safetensors"
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 100)
        self.assertIn("optimizer.safetensors", self.train(config, "--resume", "auto", code=5))

    def test_other_architecture(self):
        config = self.config("run")
        self.train(config, "--max-steps", "4")
        text = self.train(config, "--resume", "auto", "--model.class_name=TransformerForCausalLM", code=5)
        self.assertIn("SATFormerForCausalLM", text)


class Signals(TrainCase):
    def wait_for_steps(self, run, steps):
        path = os.path.join(self.run_dir(run), "metrics.jsonl")
        deadline = time.time() + 60
        while time.time() < deadline:
            if os.path.exists(path):
                with open(path) as file:
                    if len(file.readlines()) >= steps:
                        return
            time.sleep(0.002)
        self.fail("training did not get under way")

    def test_first_signal_saves(self):
        self.train(self.config("whole"))
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number):
                name = "run%d" % code
                config = self.config(name)
                process = self.start(config)
                self.wait_for_steps(name, 3)
                process.send_signal(number)
                _, err = process.communicate(timeout=60)
                if process.returncode == 0:
                    continue  # it was faster than the signal
                self.assertEqual(process.returncode, code, err)
                self.assertIn("saved", err)
                self.train(config, "--resume", "auto")
                self.assert_same_run("whole", name)

    def test_second_signal_ends_at_once(self):
        config = self.config("slow")
        process = self.start(config, "--model.config_overrides.hidden_size=512", "--data.seq_length=128",
                             "--training.batch_size=64", "--training.max_tokens=1", "--model.config_overrides.num_hidden_layers=12")
        # In the first step, which takes seconds: config.json is written just before it.
        deadline = time.time() + 60
        while not os.path.exists(self.run_dir("slow") + "/config.json") and time.time() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        start = time.time()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertLess(time.time() - start, 2.0)
        self.assertEqual(self.checkpoints("slow"), [])


class Faults(TrainCase):
    def test_file_size_limit_while_saving(self):
        config = self.config("run")
        self.train(config, "--max-steps", "4")
        saved = self.run_dir("run") + "/checkpoints/step-00000004/"
        before = {name: sha256(saved + name) for name in os.listdir(saved)}
        limit = os.path.getsize(saved + "model.safetensors") // 2
        text = self.train(config, "--resume", "auto", code=6,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertIn("model.safetensors", text)
        self.assertEqual(self.checkpoints("run"), ["step-00000004"])
        self.assertEqual(before, {name: sha256(saved + name) for name in os.listdir(saved)})
        self.train(config, "--resume", "auto")
        self.assertIn("step-%08d" % STEPS, self.checkpoints("run"))

    def test_runaway_rate_stops(self):
        config = self.config("run", learning_rate=1e30, min_lr=1e30, weight_decay=0, max_tokens=200 * TOKENS_PER_STEP / 1e9)
        text = self.train(config, "--checkpointing.checkpoint_interval=1", code=7)
        self.assertIn("step", text)
        for name in self.checkpoints("run"):
            for tensor, values in tensors(self.run_dir("run") + "/checkpoints/%s/model.safetensors" % name):
                self.assertTrue(all(map(math.isfinite, values)), "%s %s" % (name, tensor))

    def test_bad_input(self):
        config = self.config("run")
        cases = [
            (3, ["--training.batch_siz=3"], "training.batch_size"),
            (3, ["--training.batch_size=0"], "at least 1"),
            (3, ["--data.seq_length=256"], "128"),
            (3, ["--model.config_overrides.num_heads=5"], "5"),
            (3, ["--device", "gpu"], "cpu"),
            (3, ["--threads", "4096"], "4096"),
            (4, ["--data.train_prefix=none"], "none"),
            (4, ["--data.data_dir=" + self.folder + "/nowhere"], "nowhere"),
            (4, ["--model.config_overrides.vocab_size=40"], "train_00000.bin"),
            (4, ["--data.data_dir=" + self.short_data()], "33"),
            (6, ["--checkpointing.checkpoint_dir=/dev/null/run"], "/dev/null"),
            (5, ["--resume", self.folder + "/nothing"], "nothing"),
            (2, ["--rezume", "auto"], "--resume"),
        ]
        for code, arguments, part in cases:
            with self.subTest(arguments):
                text = self.train(config, *arguments, code=code)
                self.assertIn(part, text)
                self.assertEqual(text.count("error:"), 1, text)
                self.assertEqual(self.checkpoints("run"), [])

    def short_data(self):
        folder = os.path.join(self.folder, "short")
        os.mkdir(folder)
        write_shard(os.path.join(folder, "train_00000.bin"), 32, 1)
        write_shard(os.path.join(folder, "val_00000.bin"), 33, 1)
        return folder


class Output(TrainCase):
    def test_dry_run_needs_no_data(self):
        config = self.config("run")
        start = time.time()
        text = self.train(config, "--dry-run", "--data.data_dir=/nonexistent", "--model.config_overrides.hidden_size=2048",
                          "--model.config_overrides.num_hidden_layers=24", "--model.config_overrides.num_heads=32")
        self.assertLess(time.time() - start, 5.0)  # a second on an idle machine
        for part in ("parameters", "FLOPs per token", "peak memory", "steps", "disk", "missing: "):
            self.assertIn(part, text)
        self.assertFalse(os.path.exists(self.run_dir("run")))

    def test_origins_and_unused_keys(self):
        config = self.config("run")
        text = self.train(config, "--show-config", "--seed", "5", env={**os.environ, "SATFORMER_TRAINING__BETA1": "0.8"})
        self.assertIn("system.seed = 5  [--system.seed]", text)
        self.assertIn("training.beta1 = 0.8  [environment SATFORMER_TRAINING__BETA1]", text)
        self.assertIn("data.seq_length = 32  [%s]" % config, text)
        self.assertIn('training.decay = "all"', text)
        text = self.train(config, "--dry-run")
        unused = [line for line in text.splitlines() if line.startswith("unused")]
        self.assertEqual(len(unused), 1)
        self.assertEqual(unused[0].count("training.fused_adamw"), 1)

    def test_help_lists_fields(self):
        out = subprocess.run([SATFORMER, "train", "--help"], capture_output=True, text=True, check=True).stdout
        for part in ("--resume", "--training.decay", "--model.config_overrides.num_heads"):
            self.assertIn(part, out)

    def test_samples_and_tokenizer(self):
        config = self.config("run")
        self.train(config, "--tokenizer.name_or_path=byte", "--model.config_overrides.vocab_size=259",
                   "--logging.sample_interval=8", "--logging.sample_tokens=12", "--checkpointing.keep_last=2")
        with open(self.run_dir("run") + "/samples.jsonl") as file:
            self.assertEqual([json.loads(line)["progress/step"] for line in file], [8, 16, 24])
        self.assertEqual(self.checkpoints("run"), ["step-00000020", "step-00000024"])
        self.assertTrue(os.path.exists(self.run_dir("run") + "/final/config.json"))
        self.assertTrue(os.path.exists(self.run_dir("run") + "/config.json"))


if __name__ == "__main__":
    SATFORMER = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
