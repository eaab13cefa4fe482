"""The Python package against the program and against PyTorch's own operations. Skipped where it is not installed.
Usage: bindings_test.py SATFORMER [FOLDER-OF-THE-PACKAGE]"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

python = os.environ.pop("SATFORMER_TEST_PYTHON", None)
if python:
    os.execvp(python, [python, *sys.argv])
if len(sys.argv) > 2:
    sys.path.insert(0, sys.argv[2])
try:
    import torch
    import torch.nn.functional as F
    import satformer
except ImportError as reason:
    print(f"bindings_test: skipped, the package satformer cannot be imported: {reason}")
    sys.exit(0)

PROGRAM = sys.argv[1]
TEXT = "The light of the lamp fell on the table. Names are given early and asked for late.\n\n" * 200


def run(*arguments):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                            env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert result.returncode == 0, result.stderr
    return result.stdout


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="satformer-python-")
        text, cls.data = os.path.join(cls.folder, "text.txt"), os.path.join(cls.folder, "data")
        with open(text, "w") as file:
            file.write(TEXT)
        run("prepare", text, "--tokenizer", "byte", "--min-document-bytes", "200", "--val-fraction", "0.2", "-o", cls.data)
        cls.models = {}
        for name in ("SATFormer", "Transformer"):
            run_dir, config = os.path.join(cls.folder, name), os.path.join(cls.folder, name + ".json")
            with open(config, "w") as file:
                json.dump({
                    "model": {"class_name": name + "ForCausalLM", "config_overrides": dict(
                        vocab_size=259, hidden_size=32, num_hidden_layers=3, num_heads=4, num_kv_heads=2, qk_norm=True,
                        intermediate_size=64, tie_word_embeddings=True, max_position_embeddings=64)},
                    "data": {"data_dir": cls.data, "seq_length": 32},
                    "training": {"batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 5e-3, "min_lr": 1e-3,
                                 "warmup_tokens": 1e-6, "max_tokens": 256 * 30 / 1e9, "dtype": "float32"},
                    "checkpointing": {"checkpoint_dir": run_dir, "checkpoint_interval": 0},
                    "logging": {"log_interval": 10, "eval_interval": 0}}, file)
            run("train", "--config", config)
            cls.models[name] = satformer.load(run_dir)
        cls.model = cls.models["SATFormer"]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_what_a_model_says_of_itself(self):
        model = self.model
        self.assertEqual(model.architecture, "satformer")
        self.assertEqual(model.config["hidden_size"], 32)
        self.assertEqual(model.num_parameters, sum(p.numel() for p in model.parameters().values()))
        self.assertIn("alpha_proj", " ".join(model.parameters()))

    def test_losses_are_those_of_the_program(self):
        text = "The light of the table."
        ids = torch.tensor([[model_id for model_id in self.model.tokenizer.encode(text)]])
        logits = self.model.logits(ids)
        own = F.cross_entropy(logits[0, :-1], ids[0, 1:])
        self.assertAlmostEqual(self.model.loss(ids[:, :-1], ids[:, 1:]).item(), own.item(), places=5)
        lines = os.path.join(self.folder, "lines.jsonl")
        with open(lines, "w") as file:
            file.write(json.dumps({"context_ids": ids[0, :1].tolist(), "continuation_ids": ids[0, 1:].tolist()}) + "\n")
        answer = json.loads(run("score", "--model", self.model.directory, lines))
        self.assertAlmostEqual(answer["loglikelihood"], -own.item() * (ids.shape[1] - 1), delta=1e-3)

    def test_pads_do_not_count(self):
        ids = torch.tensor([self.model.tokenizer.encode("lamp")])
        padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], 1)
        mask = torch.cat([torch.zeros(1, 3), torch.ones(1, ids.shape[1])], 1)
        self.assertTrue(torch.allclose(self.model.logits(padded, mask)[:, 3:], self.model.logits(ids), atol=1e-5))

    def test_gradients_reach_the_weights(self):
        ids = torch.tensor([self.model.tokenizer.encode("The light of the lamp")])
        weight = next(p for name, p in self.model.parameters().items() if "alpha_proj" in name)
        weight.grad = None
        with torch.enable_grad():
            self.model.loss(ids[:, :-1], ids[:, 1:]).backward()
        gradient = weight.grad.clone()
        place = tuple(int(i) for i in (gradient.abs() == gradient.abs().max()).nonzero()[0])
        values = []
        with torch.no_grad():
            for step in (1e-2, -2e-2):
                weight[place] += step
                values.append(self.model.loss(ids[:, :-1], ids[:, 1:]).item())
            weight[place] += 1e-2
        self.assertAlmostEqual((values[0] - values[1]) / 2e-2, gradient[place].item(), delta=0.02 * abs(gradient[place].item()) + 1e-5)

    def test_gates(self):
        ids = torch.tensor([self.model.tokenizer.encode("The lamp")])
        gates = self.model.gates(ids)
        self.assertEqual(sorted(gates), [(1, 0), (2, 0)])
        for gate in gates.values():
            self.assertEqual(tuple(gate.shape), (1, ids.shape[1], 2))
            self.assertTrue((gate >= 0).all())
        with self.assertRaises(satformer.Error) as caught:
            self.models["Transformer"].gates(ids)
        self.assertEqual(caught.exception.code, 3)
        self.assertIn("no gates", str(caught.exception))

    def test_generation_is_the_programs(self):
        text = self.model.generate("The light", max_new_tokens=20, temperature=0)
        printed = run("generate", "--model", self.model.directory, "--prompt", "The light", "--max-new-tokens", "20", "--temperature", "0")
        self.assertEqual("The light" + text, printed.rstrip("\n"))
        texts = self.model.generate(["The light", "Names are"], max_new_tokens=20, temperature=0)
        self.assertEqual(texts, [text, self.model.generate("Names are", max_new_tokens=20, temperature=0)])
        ids = self.model.generate([self.model.tokenizer.encode("The light")], max_new_tokens=20, temperature=0)
        self.assertEqual(self.model.tokenizer.decode(ids[0]), text)
        sampled = [self.model.generate("The", max_new_tokens=30, seed=seed) for seed in (1, 1, 2)]
        self.assertEqual(sampled[0], sampled[1])
        self.assertNotEqual(sampled[0], sampled[2])

    def test_mistakes(self):
        ids = torch.tensor([[5, 6]])
        for call, code, words in (
                (lambda: satformer.load(os.path.join(self.folder, "nothing")), None, "nothing"),
                (lambda: satformer.load(self.model.directory, dtype="float16"), 2, "float16"),
                (lambda: satformer.load(self.model.directory, device="cuda:77"), None, "cuda"),
                (lambda: self.model.logits(ids.float()), 2, "integers"),
                (lambda: self.model.logits(torch.tensor([[300]])), 4, "300"),
                (lambda: self.model.logits(torch.zeros(1, 65, dtype=torch.long)), 3, "64"),
                (lambda: self.model.logits(ids, torch.ones(1, 3)), 2, "attention_mask"),
                (lambda: self.model.loss(ids, torch.full((1, 2), -100)), 2, "-100"),
                (lambda: self.model.loss(ids, torch.tensor([[1]])), 2, "shape"),
                (lambda: self.model.generate("a", temperature=-1.0), 2, "temperature"),
                (lambda: self.model.generate("a", max_new_tokens=1000), 3, "1000")):
            with self.assertRaises(satformer.Error) as caught:
                call()
            self.assertIn(words, str(caught.exception))
            if code:
                self.assertEqual(caught.exception.code, code, caught.exception)


class Operators(unittest.TestCase):
    """torch.ops.satformer against the same in PyTorch, gradients too."""

    def check(self, ours, theirs, *inputs):
        for dtype, tolerance in ((torch.float32, 2e-5), (torch.bfloat16, 5e-2)):
            first = [x.detach().clone().to(dtype).requires_grad_() if x.is_floating_point() else x for x in inputs]
            second = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in first]
            a, b = ours(*first), theirs(*second)
            self.assertEqual(a.shape, b.shape)
            self.assertTrue(torch.allclose(a.float(), b.float(), atol=tolerance, rtol=tolerance), (a - b).abs().max())
            direction = torch.randn_like(b)
            (a * direction).sum().backward()
            (b * direction).sum().backward()
            for x, y in zip(first, second):
                if x.is_floating_point():
                    self.assertTrue(torch.allclose(x.grad.float(), y.grad.float(), atol=tolerance * 4, rtol=tolerance * 4))

    def setUp(self):
        torch.manual_seed(3)

    def test_rms_norm(self):
        self.check(lambda x, w: torch.ops.satformer.rms_norm(x, w, 1e-6), lambda x, w: F.rms_norm(x, (24,), w, 1e-6),
                   torch.randn(3, 5, 24), torch.randn(24))

    def test_gated_mlp(self):
        self.check(torch.ops.satformer.gated_mlp, lambda x, g, u, d: F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d),
                   torch.randn(2, 3, 16), torch.randn(20, 16) / 4, torch.randn(20, 16) / 4, torch.randn(16, 20) / 4)

    def test_value_gate(self):
        self.check(lambda v, v1, a: torch.ops.satformer.value_gate(v, v1, a, "relu"),
                   lambda v, v1, a: v + F.relu(a).unsqueeze(-1) * v1,
                   torch.randn(2, 5, 3, 8), torch.randn(2, 5, 3, 8), torch.randn(2, 5, 3))
        with self.assertRaisesRegex(RuntimeError, "sigmoid"):
            torch.ops.satformer.value_gate(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1), "sigmod")

    def test_attention(self):
        def theirs(q, k, v):
            k, v = (x.repeat_interleave(2, 2).transpose(1, 2) for x in (k, v))
            return F.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True).transpose(1, 2)
        self.check(torch.ops.satformer.attention, theirs, torch.randn(2, 7, 4, 8), torch.randn(2, 7, 2, 8), torch.randn(2, 7, 2, 8))

    def test_linear_cross_entropy(self):
        targets = torch.tensor([1, 4, -100, 0, 8])
        self.check(lambda h, w: torch.ops.satformer.linear_cross_entropy(h, w, targets, 0.25),
                   lambda h, w: F.cross_entropy(F.linear(h.float(), w.float()), targets, reduction="sum") * 0.25,
                   torch.randn(5, 12), torch.randn(9, 12))

    def test_dense_average(self):
        self.check(lambda a, b, w: torch.ops.satformer.dense_average([a, b], w), lambda a, b, w: w[0] * a + w[1] * b,
                   torch.randn(2, 3, 8), torch.randn(2, 3, 8), torch.randn(2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
