"""Runs of several ranks: a small data set and configuration, and starters like torchrun's and mpirun's."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from small_data import VOCAB, write_shard  # noqa: E402

WINDOWS = 12  # of a step
SEQ = 32


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def clean_environment():
    """Without what a starter of this test itself may have set."""
    drop = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    prefixes = ("OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "SATFORMER_")
    kept = {k: v for k, v in os.environ.items() if k not in drop and not k.startswith(prefixes)}
    return {**kept, "OMP_NUM_THREADS": "1"}


def mpirun():
    return shutil.which("mpirun")


class RankCase(unittest.TestCase):
    program = ""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="satformer-ranks-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data)
        write_shard(os.path.join(self.data, "train_00000.bin"), 3000, 1)
        write_shard(os.path.join(self.data, "train_00001.bin"), 1500, 2)
        write_shard(os.path.join(self.data, "val_00000.bin"), 1000, 3)

    def run_dir(self, run):
        return os.path.join(self.folder, run)

    def config(self, run, steps, batch=4, accumulation=3, **training):
        path = os.path.join(self.folder, run + ".json")
        tokens = WINDOWS * SEQ
        content = {
            "model": {
                "class_name": "SATFormerForCausalLM",
                "config_overrides": {
                    "vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4,
                    "max_position_embeddings": 64, "intermediate_size": 64,
                },
            },
            "data": {"data_dir": self.data, "seq_length": SEQ},
            "training": {
                "batch_size": batch, "gradient_accumulation_steps": accumulation, "learning_rate": 3e-3,
                "min_lr": 3e-4, "warmup_tokens": 3 * tokens / 1e9, "max_tokens": steps * tokens / 1e9, **training,
            },
            "checkpointing": {"checkpoint_dir": self.run_dir(run), "checkpoint_interval": 4, "keep_last": 0},
            "logging": {"log_interval": 1, "eval_interval": 6, "eval_iters": 1},
            "system": {"seed": 7, "threads": 1},
        }
        with open(path, "w") as out:
            json.dump(content, out)
        return path

    def start_rank(self, rank, size, port, arguments, command="train", **environment):
        variables = {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment,
        }
        process = subprocess.Popen(
            [self.program, command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            errors="replace", env={**clean_environment(), **variables} if size > 1 else clean_environment())
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def start(self, size, *arguments):
        port = free_port()
        if "--timeout" not in arguments:
            arguments = ("--timeout", "60", *arguments)
        return [self.start_rank(rank, size, port, ["--peak-tflops", "0.1", *arguments]) for rank in range(size)]

    def finish(self, processes, timeout=120):
        """[(exit code, what was written)] of each."""
        results = []
        for process in processes:
            out, err = process.communicate(timeout=timeout)
            results.append((process.returncode, out + err))
        return results

    def train(self, size, *arguments, code=0):
        results = self.finish(self.start(size, *arguments))
        for rank, (status, text) in enumerate(results):
            self.assertEqual(status, code, "rank %d: %s" % (rank, text))
        return results[0][1]

    def metrics(self, run):
        path = os.path.join(self.run_dir(run), "metrics.jsonl")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def losses(self, run, key="train/loss"):
        return {line["progress/step"]: line[key] for line in self.metrics(run) if key in line}

    def assert_same_losses(self, a, b, tolerance=1e-5):
        for key in ("train/loss", "val/loss"):
            first, second = self.losses(a, key), self.losses(b, key)
            self.assertEqual(sorted(first), sorted(second), key)
            for step, loss in first.items():
                self.assertAlmostEqual(loss, second[step], delta=tolerance, msg="%s of step %d" % (key, step))

    def read(self, *path):
        with open(os.path.join(self.folder, *path), "rb") as file:
            return file.read()
