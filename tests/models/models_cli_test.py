#!/usr/bin/env python3
"""export, import, retrofit and tokenize. With the package gguf, its reader too. usage: models_cli_test.py SATFORMER TESTS"""

import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import gguf
except ImportError:
    gguf = None

SATFORMER, TESTS = sys.argv[1], pathlib.Path(sys.argv[2])
PYTHON = os.environ.get("SATFORMER_TEST_PYTHON", "python3")
CLASSES = {
    "transformer": "TransformerForCausalLM",
    "resformer": "ResFormerForCausalLM",
    "satformer": "SATFormerForCausalLM",
    "denseformer": "DenseFormerForCausalLM",
    "muddformer": "MUDDFormerForCausalLM",
    "hyperconnections": "HyperConnectionsForCausalLM",
}


def run(*arguments, code=0, text=None):
    result = subprocess.run([SATFORMER, *map(str, arguments)], capture_output=True, text=True, input=text)
    if result.returncode != code:
        raise AssertionError(f"{arguments}: {result.returncode}, not {code}\n{result.stdout}{result.stderr}")
    return result.stderr if code else result.stdout


def read_tensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items()}


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def numbers(tensor):
    return list(struct.unpack(f"<{len(tensor[2]) // 4}f", tensor[2]))


def random_numbers(seed):
    """Numbers that fp32 holds exactly."""
    draw = random.Random(seed)
    while True:
        yield draw.randrange(-(1 << 20), 1 << 20) / (1 << 20)


def has_transformers():
    code = "import torch, transformers"
    try:
        return subprocess.run([PYTHON, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


class ModelsTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = pathlib.Path(holder.name)

    def golden(self, case):
        folder = self.dir / case
        folder.mkdir()
        spec = json.loads((TESTS / "golden" / f"{case}.json").read_text())
        tensors = read_tensors(TESTS / "golden" / f"{case}.safetensors")
        params = {name[6:]: t for name, t in tensors.items() if name.startswith("param.")}
        write_tensors(folder / "model.safetensors", params)
        config = {"architectures": [CLASSES[spec["arch"]]], "model_type": spec["arch"], **spec["config_overrides"]}
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def export(self, model, out, *more):
        asked = ("--python", PYTHON) if TRANSFORMERS else ()
        return run("export", "--to", "hf", self.dir / out, "--model", model, *asked, *more)

    def test_six_architectures_go_out_and_come_back(self):
        for case in CLASSES:
            model = self.golden(case)
            said = self.export(model, f"out-{case}")
            self.assertIn("read back     max |delta logit| 0.00e+00", said)
            if TRANSFORMERS:
                self.assertIn("greedy continuations equal", said)
            card = (self.dir / f"out-{case}" / "README.md").read_text()
            self.assertIn("Checked when exported", card)
            run("import", "--from", "hf", self.dir / f"out-{case}", "-o", self.dir / f"back-{case}")
            first = read_tensors(model / "model.safetensors")
            again = read_tensors(self.dir / f"back-{case}" / "model.safetensors")
            for name, tensor in again.items():
                self.assertEqual(tensor[2], first[name][2], name)

    def test_gpt2_lies_otherwise(self):
        """Matrices transposed, queries, keys and values side by side, the prefix that transformers writes or none."""
        C, F, V, P = 8, 16, 11, 6
        draw = random_numbers(3)
        shapes = {"wte.weight": [V, C], "wpe.weight": [P, C], "ln_f.weight": [C], "ln_f.bias": [C]}
        for layer in range(2):
            for part, shape in [("ln_1.weight", [C]), ("ln_1.bias", [C]), ("attn.c_attn.weight", [C, 3 * C]),
                                ("attn.c_attn.bias", [3 * C]), ("attn.c_proj.weight", [C, C]), ("attn.c_proj.bias", [C]),
                                ("ln_2.weight", [C]), ("ln_2.bias", [C]), ("mlp.c_fc.weight", [C, F]),
                                ("mlp.c_fc.bias", [F]), ("mlp.c_proj.weight", [F, C]), ("mlp.c_proj.bias", [C])]:
                shapes[f"h.{layer}.{part}"] = shape
        values = {name: [next(draw) for _ in range(math.prod(shape))] for name, shape in shapes.items()}
        config = {"model_type": "gpt2", "n_embd": C, "n_layer": 2, "n_head": 2, "n_inner": F, "n_positions": P, "vocab_size": V}
        for prefix in ("", "transformer."):
            source = self.dir / f"gpt2{prefix}"
            source.mkdir()
            (source / "config.json").write_text(json.dumps(config))
            tensors = {prefix + name: ("F32", shape, struct.pack(f"<{len(values[name])}f", *values[name]))
                       for name, shape in shapes.items()}
            write_tensors(source / "model.safetensors", tensors)
            run("import", "--from", "hf", source, "-o", self.dir / f"out{prefix}", "--no-tokenizer")
            ours = read_tensors(self.dir / f"out{prefix}/model.safetensors")
            self.assertEqual(len(ours), 4 + 2 * 16)
            joined = values["h.1.attn.c_attn.weight"]
            for i, name in enumerate(("q_proj", "k_proj", "v_proj")):
                expected = [joined[c * 3 * C + i * C + o] for o in range(C) for c in range(C)]
                self.assertEqual(numbers(ours[f"model.layers.1.attn.{name}.weight"]), expected, name)
                bias = values["h.1.attn.c_attn.bias"][i * C : (i + 1) * C]
                self.assertEqual(numbers(ours[f"model.layers.1.attn.{name}.bias"]), bias, name)
            down = values["h.0.mlp.c_proj.weight"]
            self.assertEqual(numbers(ours["model.layers.0.mlp.down_proj.weight"]),
                             [down[f * C + o] for o in range(C) for f in range(F)])
            self.assertEqual(numbers(ours["model.positions.weight"]), values["wpe.weight"])
        said = run("generate", "--model", source, "--prompt", "x", code=5)
        self.assertIn("satformer import --from hf", said)
        self.assertIn("LayerNorm", run("export", "--to", "gguf", self.dir / "x.gguf", "--model", self.dir / "out", code=5))
        tensors.pop("transformer.h.1.attn.c_attn.bias")
        write_tensors(source / "model.safetensors", tensors)
        error = run("import", "--from", "hf", source, "-o", self.dir / "bad", "--no-tokenizer", code=5)
        self.assertIn("transformer.h.1.attn.c_attn.bias", error)
        tensors["transformer.h.1.attn.c_attn.bias"] = ("F32", [2 * C], bytes(8 * C))
        write_tensors(source / "model.safetensors", tensors)
        self.assertIn("shape", run("import", "--from", "hf", source, "-o", self.dir / "bad", "--no-tokenizer", code=5))

    def test_plain_decoder_is_llama(self):
        model = self.golden("transformer_gqa_untied_noqknorm")
        self.export(model, "llama")
        config = json.loads((self.dir / "llama/config.json").read_text())
        self.assertEqual(config["architectures"], ["LlamaForCausalLM"])
        self.assertNotIn("auto_map", config)
        self.assertIn("model.layers.0.self_attn.q_proj.weight", read_tensors(self.dir / "llama/model.safetensors"))
        for key, value, word in [
            ("rope_scaling", {"rope_type": "yarn", "factor": 2.0}, "rope_scaling"),
            ("attention_bias", True, "attention_bias"),
            ("head_dim", 6, "shape"),
            ("hidden_act", "gelu", "hidden_act"),
            ("model_type", "gpt2", "wte.weight"),
            ("model_type", "lama", "Did you mean 'llama'"),
            ("quantization_config", {"bits": 4}, "quantization_config"),
            ("num_attention_heads", "four", "num_attention_heads"),
        ]:
            (self.dir / "llama/config.json").write_text(json.dumps({**config, key: value}))
            error = run("import", "--from", "hf", self.dir / "llama", "-o", self.dir / "bad", code=5)
            self.assertIn(word, error)
            self.assertFalse((self.dir / "bad").exists())

    def test_gguf(self):
        plain = self.golden("transformer_gqa_untied_noqknorm")
        normed = self.golden("transformer")
        config = json.loads((normed / "config.json").read_text())
        self.assertIn("qk_norm_eps", run("export", "--to", "gguf", self.dir / "x", "--model", normed, code=5))
        (normed / "config.json").write_text(json.dumps({**config, "qk_norm_eps": config["norm_eps"]}))
        for case, word in [("satformer", "'satformer'"), ("muddformer", "'mudd'"), ("transformer_window", "window")]:
            model = self.golden(case)
            self.assertIn(word, run("export", "--to", "gguf", self.dir / "x", "--model", model, code=5))
        self.assertFalse((self.dir / "x").exists())
        for model, kind, dtype in [(plain, "llama", "float32"), (normed, "qwen3", "bfloat16"), (plain, "llama", "q8_0")]:
            out = self.dir / f"{kind}-{dtype}.gguf"
            said = run("export", "--to", "gguf", out, "--model", model, "--dtype", dtype)
            self.assertIn(f"as {kind}, ", said)
            if dtype == "float32":
                self.assertIn("read back     max |delta logit| 0.00e+00", said)
            self.assertEqual(out.read_bytes()[:4], b"GGUF")
            self.assertIn("--overwrite", run("export", "--to", "gguf", out, "--model", model, code=2))
            if gguf:
                reader = gguf.GGUFReader(out)
                self.assertEqual(reader.fields["general.architecture"].contents(), kind)
                first = read_tensors(model / "model.safetensors")["model.embeddings.weight"]
                (tensor,) = [t for t in reader.tensors if t.name == "token_embd.weight"]
                self.assertEqual(list(tensor.shape), first[1][::-1])
        self.assertEqual([p.name for p in self.dir.glob("*.unproved*")], [])

    def test_parts(self):
        model = self.golden("satformer")
        self.export(model, "parts", "--max-shard-size", "20KB")
        index = json.loads((self.dir / "parts/model.safetensors.index.json").read_text())
        self.assertGreater(len(set(index["weight_map"].values())), 2)
        run("import", "--from", "hf", self.dir / "parts", "-o", self.dir / "whole")
        name = sorted(set(index["weight_map"].values()))[0]
        (self.dir / "parts" / name).unlink()
        self.assertIn(name, run("import", "--from", "hf", self.dir / "parts", "-o", self.dir / "b", code=5))

    def test_targets_are_kept(self):
        model = self.golden("satformer")
        (self.dir / "full").mkdir()
        (self.dir / "full/mine.txt").write_text("keep")
        self.assertIn("--overwrite", run("export", "--to", "hf", self.dir / "full", "--model", model, code=2))
        error = run("export", "--to", "hf", self.dir / "n", "--model", model, "--python", "/nowhere/python", code=2)
        self.assertIn("/nowhere/python", error)
        self.assertFalse((self.dir / "n").exists())
        self.assertIn("gguff", run("export", "--to", "gguff", self.dir / "n", "--model", model, code=2))
        self.assertIn(
            "5 bananas",
            run("export", "--to", "hf", self.dir / "n", "--model", model, "--max-shard-size", "5 bananas", code=2),
        )
        self.assertEqual((self.dir / "full/mine.txt").read_text(), "keep")

    def test_retrofit_starts_as_the_same_function(self):
        model = self.golden("transformer")
        for add in ["satformer", "satformer[gate=identity,granularity=head]", "resformer"]:
            said = run("retrofit", "--from", model, "--add", add, "-o", self.dir / "r", "--overwrite")
            self.assertIn("max |delta| 0.00e+00", said)
        run("retrofit", "--from", model, "--add", "lime", "-o", self.dir / "lime")
        for add, word in (("resformer[gate=tanh]", "no effect"), ("satformer[gate=tanh,gate=relu]", "twice")):
            self.assertIn(word, run("retrofit", "--from", model, "--add", add, "-o", self.dir / "x", code=2))
        # A run's folder, whose config.json is of the run.
        (self.dir / "run").mkdir()
        (self.dir / "run/config.json").write_text(json.dumps({"model": {"class_name": "TransformerForCausalLM"}}))
        shutil.copytree(model, self.dir / "run/final")
        run("retrofit", "--from", self.dir / "run", "--add", "satformer", "-o", self.dir / "of-run")
        self.assertIn("no 'model_type'", run("import", "--from", "hf", self.dir / "run", "-o", self.dir / "x", code=5))
        said = run("retrofit", "--from", model, "--add", "satformer[gate=relu]", "-o", self.dir / "relu")
        self.assertNotIn("max |delta| 0.00e+00", said)
        self.assertIn(
            "already", run("retrofit", "--from", self.dir / "relu", "--add", "satformer", "-o", self.dir / "x", code=2)
        )
        self.assertIn(
            "'gate'", run("retrofit", "--from", model, "--add", "satformer[gat=tanh]", "-o", self.dir / "x", code=2)
        )
        self.assertIn(
            "factorised",
            run(
                "retrofit", "--from", model, "--add", "satformer[granularity=factorised]", "-o", self.dir / "x", code=2
            ),
        )

    def test_tokenize(self):
        folder = TESTS / "models/tokenizers/llama3"
        ids = run("tokenize", "-t", folder, "--text", "The gate 12").split()
        self.assertEqual(run("tokenize", "-t", folder, "--decode", "--text", " ".join(ids)), "The gate 12")
        self.assertEqual(run("tokenize", "-t", "byte", "--count", text="abc"), "3\n")
        self.assertEqual(run("tokenize", "-t", "byte", "--lines", "--eos", text="a\nb\n"), "100 2\n101 2\n")
        self.assertIn("'x'", run("tokenize", "-t", "byte", "--decode", "--text", "1 x", code=4))
        self.assertIn("300", run("tokenize", "-t", "byte", "--decode", "--text", "300", code=4))


TRANSFORMERS = has_transformers()
print(f"gguf: {'read' if gguf else 'not read, the package is missing'}")
print(f"transformers: {'asked' if TRANSFORMERS else 'not asked, ' + PYTHON + ' has none'}", flush=True)
unittest.main(argv=sys.argv[:1])
