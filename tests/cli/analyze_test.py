"""satformer analyze through the program: what it writes, that edits of the same meaning agree, and what it answers to
bad input. Usage: analyze_test.py SATFORMER GOLDEN_DIR"""
import csv
import json
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pipeline_test import SENTENCES, config, run  # noqa: E402


class Analyze(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="satformer-analyze-")
        text = os.path.join(cls.folder, "text.jsonl")
        with open(text, "w") as f:
            for i in range(300):
                f.write(json.dumps({"text": " ".join(SENTENCES[(i * k) % 4] for k in range(1, 4))}) + "\n")
        run("prepare", text, "--tokenizer", "byte", "--val-fraction", "0.1", "-o", cls.path("data"))
        for name in ("SATFormer", "Transformer"):
            path = cls.path(name + ".json")
            with open(path, "w") as f:
                json.dump(config(name + "ForCausalLM", cls.folder), f)
            run("train", "--config", path, "--log-gates", "5")
        cls.output = cls.path("analysis")
        cls.summary, _ = run(*cls.analyze("SATFormer"), "--output", cls.output, "--edit", "scale=1",
                             "--edit", "zero@layers=1-2", "--run", cls.run_of("SATFormer"), "--prompt", "A lamp <b>&",
                             "--contrast", cls.texts("a", "The lamp.\n\nThe table.\n"), cls.texts("b", "legs\nhas four"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def texts(cls, name, text):
        path = cls.path(name + ".txt")
        with open(path, "w") as f:
            f.write(text)
        return path

    @classmethod
    def run_of(cls, name):
        return cls.path("runs", name + "ForCausalLM")

    @classmethod
    def analyze(cls, name, data=True):
        return ["analyze", "--model", cls.run_of(name)] + (["--data", cls.path("data"), "--limit", "6"] if data else [])

    def result(self, folder=None):
        with open(os.path.join(folder or self.output, "analysis.json")) as f:
            return json.load(f)

    def test_every_study_is_written(self):
        studies = self.result()["studies"]
        self.assertEqual(list(studies), ["gates", "positions", "kinds", "relations", "heads", "interventions", "strength",
                                         "lens", "identity", "gradients", "tokens", "prompt", "contrast", "training"])
        files = set(os.listdir(self.output))
        self.assertLessEqual({"analysis.html", "gates_layers.csv", "gates_heads.csv", "kinds.csv", "interventions.csv",
                              "training.csv", "contrast.csv", "prompt.csv", "heads_similarity.csv"}, files)
        self.assertFalse([name for name in files if name.endswith(".tmp")])
        with open(os.path.join(self.output, "gates_layers.csv"), newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([float(r["mean"]) for r in rows], [layer["mean"] for layer in studies["gates"]["layers"]])
        with open(os.path.join(self.output, "analysis.html")) as f:
            page = f.read()
        self.assertNotIn("http://", page.replace("http://www.w3.org", ""))
        self.assertNotIn("https://", page)
        self.assertLess(len(self.summary.splitlines()), 40)

    def test_edits_agree_with_gates_and_with_each_other(self):
        studies = self.result()["studies"]
        change = {edit["edit"]: edit["change"] for edit in studies["interventions"]["edits"]}
        self.assertAlmostEqual(change["scale=1"]["value"], 0, places=6)
        self.assertAlmostEqual(change["zero@layers=1-2"]["value"], change["zero"]["value"], places=9)  # all of them
        self.assertLessEqual(change["zero"]["low"], change["zero"]["value"])
        gates = os.path.join(self.folder, "gates.json")
        run("gates", "--model", self.run_of("SATFormer"), "--data-dir", self.path("data"), "--limit", "6", "-o", gates)
        with open(gates) as f:
            for mine, other in zip(studies["gates"]["layers"], json.load(f)["layers"], strict=True):
                self.assertAlmostEqual(mine["mean"], other["mean"], places=6)
                self.assertAlmostEqual(mine["zero_share"], other["zero_share"], places=9)

    def test_training_logged_gates_without_changing_the_run(self):
        history = self.result()["studies"]["training"]
        self.assertEqual(history["steps"], [5, 10, 15, 20, 25, 30])
        path = self.path("again.json")
        plain = config("SATFormerForCausalLM", self.folder)
        plain["checkpointing"]["checkpoint_dir"] = self.path("runs", "again")
        with open(path, "w") as f:
            json.dump(plain, f)
        run("train", "--config", path)
        weights = []
        for name in (self.run_of("SATFormer"), self.path("runs", "again")):
            with open(os.path.join(name, "final", "model.safetensors"), "rb") as f:
                weights.append(f.read())
        self.assertEqual(*weights)

    def test_a_transformer_is_studied_when_asked(self):
        out = self.path("transformer")
        _, error = run(*self.analyze("Transformer"), code=3)
        self.assertIn("studies that apply", error)
        run(*self.analyze("Transformer"), "--studies", "lens,identity", "-o", out)
        self.assertEqual(list(self.result(out)["studies"]), ["lens", "identity"])

    def test_kinds_from_a_file(self):
        rules = self.texts("kinds", json.dumps({"rules": [{"kind": "lamp", "words": ["lamp"]}], "otherwise": "rest"}))
        out = self.path("kinds")
        run(*self.analyze("SATFormer"), "--kinds", rules, "--studies", "kinds,interventions", "--edit", "zero@kinds=lamp",
            "-o", out)
        self.assertEqual([k["kind"] for k in self.result(out)["studies"]["kinds"]["kinds"]], ["lamp", "rest"])
        edit = self.result(out)["studies"]["interventions"]["edits"][-1]
        self.assertEqual(edit["edit"], "zero@kinds=lamp")

    def test_a_second_analysis_leaves_no_tables_of_the_first(self):
        out = self.path("twice")
        run(*self.analyze("SATFormer"), "--studies", "gates,kinds", "-o", out)
        kept = os.path.join(out, "mine.csv")
        with open(kept, "w") as f:
            f.write("x")
        run(*self.analyze("SATFormer"), "--studies", "positions", "-o", out)
        self.assertEqual({n for n in os.listdir(out) if n.endswith(".csv")}, {"positions.csv", "mine.csv"})

    def test_bad_input_is_told_before_the_work(self):
        def refused(code, part, *arguments, data=True):
            out = self.path("refused")
            _, error = run(*self.analyze("SATFormer", data), "-o", out, *arguments, code=code)
            self.assertIn(part, error)
            self.assertEqual(len(error.strip().splitlines()), 1, error)
            self.assertFalse(os.path.exists(os.path.join(out, "analysis.json")))

        refused(2, "--data is required", data=False)
        refused(2, "Did you mean 'gates'", "--studies", "gatse")
        refused(2, "Did you mean 'zero'", "--edit", "zreo")
        refused(2, "1-2", "--edit", "zero@layers=7")
        refused(2, "heads are 0-3", "--edit", "zero@heads=4")
        refused(2, "'semantic'", "--edit", "zero@kinds=semantics")
        refused(2, "interventions", "--edit", "zero", "--studies", "gates")
        refused(2, "two files", "--contrast", "x")
        refused(2, "at least 100", "--resamples", "3")
        refused(2, "empty value", "--prompt", "")
        refused(2, "not valid UTF-8", "--prompt", os.fsdecode(b"a\xff"))
        refused(2, "'-1' is not", "--edit", "zero@layers=-1")
        refused(2, "a\\nb", "--edit", "a\nb")
        refused(2, "'x1'", "--seed", "x1")
        refused(3, "'rules'", "--kinds", self.texts("bad", "{}"))
        refused(3, "not valid JSON", "--kinds", self.texts("worse", "{"))
        refused(4, "at least 2", "--contrast", self.texts("one", "a"), self.texts("two", "a\nb"))
        refused(4, "--log-gates", "--run", self.logless())
        refused(6, "no_such", "--run", self.path("no_such"))
        refused(4, "nowhere", "--data", self.path("nowhere"), data=False)
        _, error = run(*self.analyze("SATFormer"), "--output", self.texts("file", ""), code=2)
        self.assertIn("is a file", error)

    def logless(self):
        folder = self.path("logless")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "metrics.jsonl"), "w") as f:
            f.write('{"progress/step":1,"train/loss":2}\n')
        return folder


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
