"""`satformer compare` through the program: a grid is planned, run, stopped, continued, extended, reported.
Usage: compare_cli_test.py SATFORMER"""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SATFORMER = sys.argv[1]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")


def run(*arguments, code=0, environment=ENVIRONMENT):
    result = subprocess.run([SATFORMER, *map(str, arguments)], capture_output=True, env=environment, timeout=300)
    out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
    if result.returncode != code:
        raise AssertionError(f"{arguments} exited with {result.returncode}, expected {code}\n{out}\n{err}")
    return out, err


def specification(**changes):
    spec = {
        "name": "small",
        "base": {
            "model.config_overrides": dict(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_heads=2,
                                           intermediate_size=32, max_position_embeddings=32, qk_norm=True,
                                           tie_word_embeddings=True),
            "data": {"seq_length": 32, "synthetic": {"task": "mqar", "pairs": 4, "examples": 5000, "val_examples": 32}},
            "training": {"batch_size": 4, "gradient_accumulation_steps": 1, "learning_rate": 1e-3, "min_lr": 1e-4,
                         "warmup_tokens": 1e-6, "max_tokens": 20 * 128 / 1e9},
            "logging": {"log_interval": 5, "eval_interval": 5, "eval_iters": 1},
            "checkpointing.checkpoint_interval": 10,
        },
        "arms": ["transformer", {"name": "tanh", "architecture": "satformer",
                                 "set": {"model.config_overrides.value_residual_gate": "tanh"}}],
        "seeds": [1, 2],
        "target": {"metric": "val/accuracy", "value": 0.99},
        "threads": 1,
    }
    spec.update(changes)
    return spec


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="satformer-compare-")
        self.output = os.path.join(self.folder, "out")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def write(self, **changes):
        path = os.path.join(self.folder, "spec.json")
        with open(path, "w") as f:
            json.dump(specification(**changes), f)
        return path

    def compare(self, *options, code=0, **changes):
        return run("compare", self.write(**changes), "-o", self.output, *options, code=code)

    def report(self):
        with open(os.path.join(self.output, "report.json")) as f:
            return json.load(f)

    def weights(self):
        found = {}
        for root, _, files in os.walk(os.path.join(self.output, "runs")):
            if root.endswith("/final") and "model.safetensors" in files:
                with open(os.path.join(root, "model.safetensors"), "rb") as f:
                    found[os.path.relpath(root, self.output)] = f.read()
        return found

    def test_a_grid_is_run_and_reported(self):
        out, _ = self.compare("--dry-run")
        self.assertIn("4 runs", out)
        self.assertFalse(os.path.exists(self.output))
        out, _ = self.compare(evaluate={"tasks": ["mqar"], "arguments": ["--limit", "16"]},
                              measure={"phases": ["train"], "batch_size": 2, "context": 32, "rounds": 1, "seconds": 0.05},
                              reported=[{"claim": "x", "reported": "y & z"}])
        self.assertIn("no difference shown", out)
        report = self.report()
        arms = {arm["arm"]: arm for arm in report["arms"]}
        self.assertEqual(set(arms), {"transformer", "tanh"})
        self.assertEqual(arms["tanh"]["architecture"], "satformer")
        self.assertEqual(arms["tanh"]["final"]["n"], 2)
        self.assertEqual(arms["tanh"]["target"]["reached"], 0)
        self.assertEqual(arms["tanh"]["target"]["longest_without"], 20)
        self.assertGreater(arms["tanh"]["parameters"], arms["transformer"]["parameters"])
        self.assertIn("mqar", arms["tanh"]["tasks"])
        self.assertEqual([s["arm"] for s in report["speed"]], ["tanh"])
        with open(os.path.join(self.output, "tables", "runs.csv"), newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([(r["arm"], r["seed"], r["trained"]) for r in rows],
                         [("transformer", "1", "true"), ("tanh", "1", "true"), ("transformer", "2", "true"), ("tanh", "2", "true")])
        # The mean of the table is that of the runs.
        finals = [float(r["val/accuracy"]) for r in rows if r["arm"] == "tanh"]
        self.assertAlmostEqual(arms["tanh"]["final"]["value"], sum(finals) / 2, places=6)
        with open(os.path.join(self.output, "report.html")) as f:
            page = f.read()
        self.assertIn("y &amp; z", page)
        self.assertNotRegex(re.sub(r"http://www\.w3\.org/\S+", "", page), r"https?://")
        out, _ = run("runs", "ls", self.output)
        self.assertEqual(out.count("complete"), 4)
        out, _ = run("runs", "compare", self.output, "--html", os.path.join(self.folder, "runs.html"))
        self.assertIn("transformer/seed-1", out)
        self.assertIn("system.seed", out)
        run("runs", "show", os.path.join(self.output, "runs", "data", "tanh", "seed-1", "train"))
        run("runs", "compare", os.path.join(self.output, "runs", "data", "tanh", "seed-1"), code=2)
        run("runs", "show", self.output, code=6)
        run("runs", "sl", code=2)
        for name in ("report.md", "tables/results.csv", "tables/curves.csv", "figures/val_accuracy-tokens.svg",
                     "figures/steps-to-target.svg", "figures/speed-train.svg"):
            self.assertTrue(os.path.getsize(os.path.join(self.output, name)) > 0, name)

    def test_a_stopped_grid_goes_on_to_the_same_weights(self):
        self.compare()
        whole = self.weights()
        self.assertEqual(len(whole), 4)
        shutil.rmtree(self.output)
        spec = self.write()
        for kill in (signal.SIGTERM, signal.SIGKILL):
            process = subprocess.Popen([SATFORMER, "compare", spec, "-o", self.output], env=ENVIRONMENT,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for _ in range(600):
                if any("metrics.jsonl" in files for _, _, files in os.walk(self.output)):
                    break
                time.sleep(0.02)
            process.send_signal(kill)
            _, err = process.communicate(timeout=60)
            if process.returncode not in (0, -signal.SIGKILL):
                self.assertEqual(process.returncode, 143, err)
        time.sleep(1)  # a killed parent's runs are asked to stop, and save
        self.compare()
        self.assertEqual(self.weights(), whole)

    def test_a_failed_run_leaves_the_others(self):
        self.compare("--only", "transformer", "--seeds", "1")
        broken = os.path.join(self.output, "runs", "data", "transformer", "seed-2")
        os.makedirs(broken)
        with open(os.path.join(broken, "train"), "w") as f:  # a file where the run folder should be
            f.write("in the way")
        _, err = self.compare(code=1)
        self.assertIn("1 of 4 runs failed", err)
        self.assertIn("'transformer', seed 2", err)
        self.assertIn("preliminary", " ".join(self.report()["findings"]))
        os.remove(os.path.join(broken, "train"))
        self.compare()
        self.assertEqual(len(self.weights()), 4)

    def test_damaged_figures_are_named_and_left_out(self):
        self.compare()
        metrics = os.path.join(self.output, "runs", "data", "tanh", "seed-1", "train", "metrics.jsonl")
        with open(metrics) as f:
            whole = f.read()
        for damaged in (whole[:-40], "", None, whole.replace("{", "[", 1)):
            if damaged is None:
                os.remove(metrics)
            else:
                with open(metrics, "w") as f:
                    f.write(damaged)
            _, err = self.compare("--report", code=1)
            self.assertIn("metrics.jsonl", err)
            self.assertEqual([arm["final"]["n"] for arm in self.report()["arms"]], [2, 1])
        _, err = self.compare("--seeds", "1,2", "--report", code=1)
        with open(metrics, "w") as f:
            f.write(whole)
        with open(os.path.join(self.output, "speed.json"), "w") as f:
            f.write("{")
        self.compare("--report")
        # The report says how the runs were made, not how it was.
        with open(os.path.join(self.output, "report.md")) as f:
            text = f.read()
        self.assertNotIn("--report", text)

    def test_changed_runs_are_refused_and_new_ones_added(self):
        self.compare("--seeds", "1")
        _, err = self.compare("--seeds", "1", "--training.learning_rate=0.002", code=3)
        self.assertIn("learning_rate", err)
        before = self.weights()
        self.compare()
        after = self.weights()
        self.assertEqual(len(after), 4)
        for name, weights in before.items():
            self.assertEqual(after[name], weights)

    def test_bad_specifications_are_refused_before_anything_is_written(self):
        base = specification()["base"]
        for changes, message in (
                (dict(arms=["transfromer"]), "transformer"),
                (dict(base={**base, "training.learning_rat": 1}), "learning_rate"),
                (dict(base={**base, "model.config_overrides": {"num_heads": 3}}), "'transformer', seed 1"),
                (dict(base={**base, "training.batch_size": 10 ** 6}), "one step"),
                (dict(seeds=[-1]), "between 0"),
                (dict(seeds=[1.5]), "whole number"),
                (dict(measure={"dtype": "float8"}), "float8"),
                (dict(evaluate={"tasks": ["mqra"]}), "mqra"),
                (dict(evaluate={"tasks": ["piqa"], "data_dir": "/nowhere"}), "/nowhere"),
                (dict(evaluate={"tasks": "piqa"}), "list of texts"),
                (dict(arms=[{"name": "a"}]), "'architecture'"),
                (dict(arms=["transformer", {"architecture": "satformer", "against": "satformer"}]), "itself")):
            result = subprocess.run([SATFORMER, "compare", self.write(**changes), "-o", self.output],
                                    capture_output=True, env=ENVIRONMENT, text=True)
            self.assertIn(result.returncode, (2, 3, 8), result.stderr)
            self.assertIn(message, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertFalse(os.path.exists(self.output))
        run("compare", self.write(), "-o", self.output, "--devices", "tpu", code=3)
        run("compare", "smok", code=3)
        run("compare", code=2)
        run("compare", self.write(), "-o", self.output, "--only", "x", code=2)
        run("compare", self.write(), "-o", self.output, "--seeds", "1,a", code=2)

    def test_the_smoke_preset(self):
        run("compare", "smoke", "-o", self.output)
        self.assertEqual(len(self.weights()), 4)
        self.assertEqual([s["phase"] for s in self.report()["speed"]], ["train"])
        self.assertTrue(all(arm["tasks"]["mqar"]["value"] > 0.1 for arm in self.report()["arms"]))

    def test_presets_are_possible(self):
        out, _ = run("compare", "--list")
        names = [line.split()[0] for line in out.splitlines()[1:]]
        self.assertIn("ladder-cpu", names)
        for name in names:
            out, _ = run("compare", name, "--dry-run", "-o", self.output)
            self.assertIn("FLOPs/token", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
