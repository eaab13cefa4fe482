"""A training run of about a second, for the scripts of this folder: its data, its command line, what it leaves."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from small_data import VOCAB, sha256, write_shard  # noqa: E402

STEPS = 24
WINDOWS_PER_STEP = 2 * 3
SEQ_LENGTH = 32
ARCHITECTURES = ["satformer", "transformer", "resformer", "denseformer", "muddformer", "hyperconnections"]


class Workplace:
    """A temporary folder with training data; `with Workplace(satformer) as place`. A large one's checkpoints have files
    of one and two MiB and more, which are written past the page cache."""

    def __init__(self, satformer, large=False):
        self.satformer = os.path.abspath(satformer)
        self.hidden, self.intermediate = (96, 208) if large else (32, 48)
        self.folder = tempfile.mkdtemp(prefix="satformer-faults-")
        self.data = self.path("data")
        os.mkdir(self.data)
        # 119 windows, so that the run's 144 reach into a second epoch.
        write_shard(os.path.join(self.data, "train_00000.bin"), 2600, 1)
        write_shard(os.path.join(self.data, "train_00001.bin"), 1250, 2)
        write_shard(os.path.join(self.data, "val_00000.bin"), 500, 3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def command(self, run, *more, architecture="satformer", window_log=True):
        fields = {
            "model.class_name": architecture, "model.config_overrides.vocab_size": VOCAB,
            "model.config_overrides.hidden_size": self.hidden, "model.config_overrides.num_hidden_layers": 3,
            "model.config_overrides.num_heads": 2, "model.config_overrides.intermediate_size": self.intermediate,
            "model.config_overrides.max_position_embeddings": SEQ_LENGTH, "data.data_dir": self.data,
            "data.seq_length": SEQ_LENGTH, "training.batch_size": 2, "training.gradient_accumulation_steps": 3,
            "training.learning_rate": 3e-3, "training.min_lr": 3e-4,
            "training.warmup_tokens": 4 * WINDOWS_PER_STEP * SEQ_LENGTH / 1e9,
            "training.max_tokens": STEPS * WINDOWS_PER_STEP * SEQ_LENGTH / 1e9,
            "checkpointing.checkpoint_dir": self.path(run), "checkpointing.checkpoint_interval": 4,
            "checkpointing.keep_last": 0, "logging.log_interval": 1, "logging.eval_interval": 10,
            "logging.eval_iters": 1, "system.threads": 1, "system.seed": 7,
        }
        command = [self.satformer, "train", "--resume", "auto", "--peak-tflops", "1"]
        command += ["--%s=%s" % field for field in fields.items()]
        if window_log:
            command += ["--window-log", self.path(run + ".windows")]
        return command + list(more)

    def train(self, run, *more, code=0, prefix=(), **options):
        """Runs to the end; returns what it wrote to standard error."""
        done = subprocess.run([*prefix, *self.command(run, *more, **options)], capture_output=True, encoding="utf-8",
                              errors="replace", timeout=600)
        if code is not None and done.returncode != code:
            raise SystemExit("exit code %d where %d was expected: %s" % (done.returncode, code, done.stdout + done.stderr))
        return done

    def verify(self, paths):
        """`checkpoint verify` of many folders in one process: {folder: "whole" or "damaged"}."""
        found = {}
        for start in range(0, len(paths), 200):
            done = subprocess.run([self.satformer, "checkpoint", "verify", *paths[start:start + 200]], capture_output=True,
                                  encoding="utf-8", errors="replace", timeout=600)
            if done.returncode not in (0, 5) or done.stderr:
                raise SystemExit("checkpoint verify: %d %s" % (done.returncode, done.stderr))
            for line in done.stdout.splitlines():
                state, path = line.split(None, 1)
                found[path if state == "whole" else path.split(": ")[0]] = state
        return found


def metrics(run):
    """The lines of metrics.jsonl without what the clock decides."""
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        for key in [key for key in line if key.startswith("perf/") or key == "progress/seconds"]:
            del line[key]
    return lines


def content(run):
    """Everything of a run folder that must be equal after any interruption: {name: hash or value}."""
    found = {"metrics.jsonl": metrics(run)}
    for base in ("final", "checkpoints"):
        for folder, _, names in os.walk(os.path.join(run, base)):
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, run)
                if name == "run_config.json":
                    with open(path) as file:
                        found[relative] = json.loads(file.read())
                    found[relative]["checkpointing"].pop("checkpoint_dir")
                elif name in ("state.json", "training.json"):
                    with open(path) as file:
                        found[relative] = json.loads(file.read())
                    for clock in ("seconds", "sha256"):
                        found[relative].pop(clock, None)
                else:
                    found[relative] = sha256(path)
    return found


def differences(expected, found):
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
