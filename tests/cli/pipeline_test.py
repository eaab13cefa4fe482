"""Text to shards to a trained model to evaluation, generation, gates and info, through the program; and what each
command answers to bad input. Usage: pipeline_test.py SATFORMER GOLDEN_DIR"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

SATFORMER, GOLDEN = sys.argv[1], sys.argv[2]
SENTENCES = ["The light of the lamp fell on the table.", "A table has four legs, and a lamp has none.",
             "Names are given early and asked for late.", "What was said at the start is needed at the end."]


def run(*arguments, code=0, cwd=None, env=None):
    result = subprocess.run([SATFORMER, *(a if isinstance(a, bytes) else str(a) for a in arguments)], capture_output=True, cwd=cwd,
                            env=dict(os.environ, OMP_NUM_THREADS="1", **(env or {})), timeout=300)
    if result.returncode != code:
        raise AssertionError(f"{arguments} exited with {result.returncode}, expected {code}\n"
                             f"{result.stdout.decode(errors='replace')}\n{result.stderr.decode(errors='replace')}")
    return result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")


def config(class_name, folder, **overrides):
    model = dict(vocab_size=259, hidden_size=32, num_hidden_layers=3, num_heads=4, qk_norm=True, intermediate_size=64,
                 tie_word_embeddings=True, max_position_embeddings=64)
    model.update(overrides)
    return {
        "model": {"class_name": class_name, "config_overrides": model},
        "data": {"data_dir": os.path.join(folder, "data"), "seq_length": 32},
        "training": {"batch_size": 4, "gradient_accumulation_steps": 1, "learning_rate": 3e-3, "min_lr": 3e-4,
                     "warmup_tokens": 1e-6, "max_tokens": 128 * 30 / 1e9, "dtype": "float32"},
        "checkpointing": {"checkpoint_dir": os.path.join(folder, "runs", class_name), "checkpoint_interval": 0},
        "logging": {"log_interval": 10, "eval_interval": 0},
    }


class Pipeline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="satformer-cli-")
        text = os.path.join(cls.folder, "text.jsonl")
        with open(text, "w") as f:
            for i in range(400):
                f.write(json.dumps({"text": " ".join(SENTENCES[(i * k) % 4] for k in range(1, 4))}) + "\n")
        run("prepare", text, "--tokenizer", "byte", "--val-fraction", "0.1", "-o", os.path.join(cls.folder, "data"))
        for name in ("SATFormer", "ResFormer", "HyperConnections"):
            cls.train(name + "ForCausalLM")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def train(cls, class_name):
        path = os.path.join(cls.folder, class_name + ".json")
        with open(path, "w") as f:
            json.dump(config(class_name, cls.folder), f)
        return run("train", "--config", path)

    def run_of(self, name):
        return os.path.join(self.folder, "runs", name + "ForCausalLM")

    @property
    def data(self):
        return os.path.join(self.folder, "data")

    def evaluate(self, name, *options):
        output = os.path.join(self.folder, "eval.json")
        run("eval", "--model", self.run_of(name), "--data-dir", self.data, "--output", output, *options)
        with open(output) as f:
            return json.load(f)

    def test_losses_fell_below_uniform(self):
        for name in ("SATFormer", "ResFormer", "HyperConnections"):
            self.assertLess(self.evaluate(name)["loss"], 3.6)  # ln 259 = 5.56

    def test_eval_is_the_same_for_any_batch_size(self):
        results = [self.evaluate("SATFormer", "--batch-size", size) for size in (1, 7, 64)]
        for other in results[1:]:
            self.assertEqual(other["targets"], results[0]["targets"])
            self.assertAlmostEqual(other["loss"], results[0]["loss"], delta=1e-6)

    def test_eval_agrees_with_the_training_log(self):
        with open(os.path.join(self.run_of("SATFormer"), "metrics.jsonl")) as f:
            logged = [json.loads(line) for line in f if "val/loss" in line][-1]["val/loss"]
        self.assertAlmostEqual(self.evaluate("SATFormer")["loss"], logged, delta=1e-5)

    def test_bfloat16_is_near(self):
        self.assertAlmostEqual(self.evaluate("SATFormer", "--dtype", "bfloat16")["loss"],
                               self.evaluate("SATFormer")["loss"], delta=0.03)

    def test_generation_depends_on_the_seed_alone(self):
        arguments = ("generate", "--model", self.run_of("SATFormer"), "--prompt", "The ", "-n", "20", "--temperature", "0.9")
        first = run(*arguments, "--seed", "1")[0]
        self.assertTrue(first.startswith("The "))
        self.assertEqual(first, run(*arguments, "--seed", "1", "--no-stream")[0])
        self.assertNotEqual(first, run(*arguments, "--seed", "2")[0])

    def test_generation_uses_the_context_to_its_end(self):
        arguments = ("generate", "--model", self.run_of("HyperConnections"), "--prompt", "x" * 30, "--ignore-eos", "-t", "0")
        run(*arguments, "-n", "34")
        message = run(*arguments, "-n", "35", code=3)[1]
        for number in ("30", "35", "64"):
            self.assertIn(number, message)

    def test_quantised_weights(self):
        for name in ("SATFormer", "HyperConnections"):
            full = self.evaluate(name)["loss"]
            for weights, bound in (("int8", 0.01), ("int4", 0.1)):
                loss = self.evaluate(name, "--weights", weights)["loss"]
                self.assertNotEqual(loss, full)
                self.assertAlmostEqual(loss, full, delta=bound)
        model = self.run_of("SATFormer")
        for weights in ("int8", "int4"):
            arguments = ("generate", "--model", model, "--prompt", "The ", "-n", "20", "-t", "0", "--weights", weights)
            self.assertTrue(run(*arguments)[0].startswith("The "))
        self.assertIn("int8", run("generate", "--model", model, "--weights", "int9", code=2)[1])

    def test_speculation_gives_the_same_text(self):
        for name in ("SATFormer", "HyperConnections"):
            arguments = ("generate", "--model", self.run_of(name), "--prompt", "the cat the cat the", "-n", "40", "-t", "0",
                         "--ignore-eos")
            text = run(*arguments)[0]
            for prompts in ((), ("--prompt", "no no no no", "--prompt", "yes")):
                plain = run(*arguments, *prompts)[0]
                output, errors = run(*arguments, *prompts, "--speculate", "8")
                self.assertEqual(output, plain)
                self.assertRegex(errors, r"speculation: \d+ of \d+ proposed tokens accepted; \d+ tokens in \d+ passes")
            self.assertEqual(run(*arguments, "--speculate", "3", "--weights", "int8")[0],
                             run(*arguments, "--weights", "int8")[0])
        model = self.run_of("SATFormer")
        self.assertIn("--temperature", run("generate", "--model", model, "--speculate", "4", code=2)[1])
        self.assertIn("15", run("generate", "--model", model, "-t", "0", "--speculate", "16", code=2)[1])

    def test_gates(self):
        output = os.path.join(self.folder, "gates.json")
        table = run("gates", "--model", self.run_of("SATFormer"), "--data-dir", self.data, "--output", output)[0]
        with open(output) as f:
            layers = json.load(f)["layers"]
        self.assertEqual([layer["layer"] for layer in layers], [1, 2])
        for layer in layers:
            self.assertEqual(len(layer["heads"]), 4)
            self.assertTrue(0 < layer["zero_share"] < 1, table)
        run("gates", "--model", self.run_of("ResFormer"), "--output", output)
        with open(output) as f:
            self.assertIn("lambda1", f.read())
        self.assertIn("no gates", run("gates", "--model", self.run_of("HyperConnections"), "--data-dir", self.data, code=3)[1])

    def test_info_counts_what_the_file_holds(self):
        text = run("info", self.run_of("SATFormer"), "--tensors")[0]
        path = os.path.join(self.run_of("SATFormer"), "final", "model.safetensors")
        with open(path, "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        elements = 0
        for name, entry in header.items():
            if name != "__metadata__":
                count = 1
                for size in entry["shape"]:
                    count *= size
                elements += count
                self.assertIn(name, text)
        self.assertIn(f"({elements})", text)

    def test_verify_notices_a_damaged_reference(self):
        for name in ("satformer.json", "satformer.safetensors"):
            shutil.copy(os.path.join(GOLDEN, name), self.folder)
        path = os.path.join(self.folder, "satformer.safetensors")
        with open(path, "rb") as f:
            content = bytearray(f.read())
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        for key in ("logits", "loss", "grad.model.norm.weight", "traj.loss", "traj.grad_norm"):
            damaged = bytearray(content)
            at = 8 + length + header[key]["data_offsets"][0]
            value = struct.unpack("<f", damaged[at:at + 4])[0]
            damaged[at:at + 4] = struct.pack("<f", value + 0.01)
            with open(path, "wb") as f:
                f.write(damaged)
            self.assertIn("FAILED", run("verify", os.path.join(self.folder, "satformer.json"), code=1)[0], key)
        with open(path, "wb") as f:
            f.write(content[:-5])
        run("verify", os.path.join(self.folder, "satformer.json"), code=5)
        os.remove(os.path.join(self.folder, "satformer.json"))

    def test_bad_input_has_its_exit_code_and_names_the_nearest(self):
        model, data = self.run_of("SATFormer"), self.data
        self.assertIn("generate", run("genrate", code=2)[1])
        self.assertIn("--temperature", run("generate", "--model", model, "--temprature", "1", code=2)[1])
        run("generate", "--model", model, "--temperature", "-1", code=2)
        run("generate", "--model", model, "--top-p", "0", code=2)
        run("generate", "--model", model, "--max-new-tokens", "0", code=2)
        run("eval", "--model", os.path.join(self.folder, "nowhere"), "--data-dir", data, code=5)
        run("eval", "--model", model, "--data-dir", data, "--batch-size", "0", code=2)
        run("eval", "--model", model, "--data-dir", data, "--seq-length", "65", code=3)
        run("eval", "--model", model, "--data-dir", data, "--prefix", "test", code=4)
        run("eval", "--model", model, "--data-dir", data, "--device", "gpu", code=3)
        run("eval", "--model", model, "--data-dir", data, "--dtype", "float23", code=2)
        with open("/dev/full", "w") as full:
            # Short, and longer than what is buffered: then the last write alone may succeed.
            for words in (["info", model], ["train", "--show-config"], ["man", "train"], ["train", "--help"]):
                process = subprocess.run([SATFORMER, *words], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual((process.returncode, process.stderr.count(b"\n")), (6, 1), words)

    def test_a_misspelt_required_option_is_named(self):
        for words in (["eval", "--modl", "x"], ["generate", "--modle=x"], ["export", "--too", "hf"], ["retrofit", "--form", "x"]):
            error = run(*words, code=2)[1]
            self.assertIn(f"unknown argument '{words[1].partition('=')[0]}'. Did you mean '--", error)

    def test_errors_are_one_readable_line(self):
        path = os.path.join(self.folder, "odd.json")
        with open(path, "w") as f:
            f.write('{"training": {"learning_rat\\u0000\\u001b[31m": 1}}')
        error = run("train", "--config", path, code=3)[1]
        self.assertIn("learning_rat\\x00\\x1b[31m'", error)
        error = run("train", "--config", b"no\xff" + b"x" * 100_000, code=6)[1]
        self.assertIn("no\ufffdx", error)
        self.assertLess(len(error), 5000)

    def test_a_continuation_ends_with_the_context(self):
        model = self.run_of("SATFormer")  # context 64, below the default of 100 new tokens
        self.assertTrue(run("generate", "--model", model, "--prompt", "The", "--seed", "1")[0].startswith("The"))
        self.assertIn("context", run("generate", "--model", model, "--prompt", "The", "-n", "100", code=3)[1])

    def test_outputs_keep_links_and_pipes(self):
        link, target = os.path.join(self.folder, "link.json"), os.path.join(self.folder, "target.json")
        os.symlink(target, link)
        run("gates", "--model", self.run_of("ResFormer"), "-o", link)
        self.assertTrue(os.path.islink(link))
        with open(target) as f:
            json.load(f)
        run("gates", "--model", self.run_of("ResFormer"), "-o", os.path.join(self.folder, "no", "where"), code=6)
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        run("gates", "--model", self.run_of("ResFormer"), "-o", pipe)
        self.assertIn("lambda1", reader.communicate(timeout=60)[0].decode())

    def test_settings_of_the_process_are_not_inherited(self):
        seen = os.path.join(self.folder, "environment")
        peer = f"env > {seen}; echo '{{\"tok_s\": 1}}'"
        for given in ({}, {"GOMP_SPINCOUNT": "77", "GLIBC_TUNABLES": "glibc.malloc.check=0"}, {"OMP_WAIT_POLICY": "passive", "MALLOC_TOP_PAD_": "4096"}):
            run("bench", "--scale", "tiny", "-a", "satformer", "--batch-size", "1", "--context", "8", "--rounds", "1", "--seconds", "0.01",
                "--peer", peer, env=given)
            with open(seen) as f:
                names = dict(line.rstrip("\n").split("=", 1) for line in f if "=" in line)
            for name in ("GOMP_SPINCOUNT", "GLIBC_TUNABLES", "OMP_WAIT_POLICY", "MALLOC_TOP_PAD_", "SATFORMER_SETTINGS_OF"):
                self.assertEqual(names.get(name), {**os.environ, **given}.get(name), (name, given))

    def test_config_mistakes_of_the_command_line(self):
        path = os.path.join(self.folder, "SATFormerForCausalLM.json")
        shown = run("train", "--config", path, "--show-config", "--batch_size=2")[0]
        self.assertIn("training.batch_size = 2 ", shown)
        run("train", "--config", path, "--dry-run", "--seed=-3", code=3)
        run("train", "--config", path, "--dry-run", "--checkpointing.checkpoint_dir=", code=3)
        run("train", "--config", self.folder, "--dry-run", code=6)
        self.assertIn("=", run("train", "--config", path, "--dry-run", "--learning_rate", "0.1", code=2)[1])
        run("eval", "--model", self.run_of("SATFormer"), "--data-dir", self.data, "--threads", "100000", code=3)
        huge = os.path.join(self.folder, "huge.json")
        with open(huge, "w") as f:
            f.write('{"training": {"learning_rate": 1e999}}')
        self.assertIn("huge.json", run("train", "--config", huge, "--dry-run", code=3)[1])

    def test_standard_input_is_prepared_like_the_file(self):
        text = os.path.join(self.folder, "text.jsonl")
        out = os.path.join(self.folder, "from-stdin")
        with open(text) as f:
            subprocess.run([SATFORMER, "prepare", "-", "--format", "jsonl", "--tokenizer", "byte", "--val-fraction", "0.1",
                            "-o", out], stdin=f, check=True, capture_output=True, timeout=60)
        for name in ("train_00000.bin", "val_00000.bin"):
            with open(os.path.join(out, name), "rb") as a, open(os.path.join(self.data, name), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        arguments = ["prepare", text, "--tokenizer", "byte", "-o", out, "--overwrite"]
        shown = run(*arguments, "--dedup", "--sample", "0.5", "--max-tokens", "500", "--shuffle-buffer", "7")[0]
        self.assertIn("identical to an earlier one", shown)
        self.assertIn("--format jsonl", run("prepare", "-", "--tokenizer", "byte", "-o", out + "2", code=2)[1])
        run(*arguments, "--sample", "0", code=2)

    def test_a_checkpoint_of_the_authors_trainer_is_read(self):
        files = os.path.join(os.path.dirname(GOLDEN), "data", "torch")
        described = run("info", os.path.join(files, "latest"))[0]
        self.assertIn("(1344)", described)
        self.assertIn("step 500, epoch 0, 131072000 tokens", described)
        state = os.path.join(files, "latest", "training_state.pt")
        self.assertIn("optimizer_state_dict.state.1.exp_avg_sq", run("info", state, "--tensors")[0])
        self.assertIn("posix.system", run("info", os.path.join(files, "malicious.pt"), code=5)[1])
        self.assertIn("not a ZIP archive", run("info", os.path.join(files, "legacy.pt"), code=5)[1])

    def test_a_cut_or_foreign_model_is_refused(self):
        source = os.path.join(self.run_of("SATFormer"), "final")
        broken = os.path.join(self.folder, "broken")
        shutil.copytree(source, broken)
        weights = os.path.join(broken, "model.safetensors")
        with open(weights, "rb") as f:
            content = f.read()
        with open(weights, "wb") as f:
            f.write(content[:-1])
        self.assertIn("is cut or changed", run("eval", "--model", broken, "--data-dir", self.data, code=5)[1])
        os.remove(os.path.join(broken, "training.json"))  # whose hashes notice every change; others' folders have none
        for cut in (0, 7, 100, len(content) - 1):
            with open(weights, "wb") as f:
                f.write(content[:cut])
            run("eval", "--model", broken, "--data-dir", self.data, code=5)
        shutil.copy(os.path.join(self.run_of("ResFormer"), "final", "model.safetensors"), weights)
        self.assertIn("alpha_proj", run("eval", "--model", broken, "--data-dir", self.data, code=5)[1])

    def test_contradictory_or_misspelt_model_config_is_refused(self):
        source = os.path.join(self.run_of("SATFormer"), "final")
        odd = os.path.join(self.folder, "odd")
        shutil.copytree(source, odd)
        os.remove(os.path.join(odd, "training.json"))  # whose hashes notice every change
        path = os.path.join(odd, "config.json")
        with open(path) as f:
            config = json.load(f)
        for change, expected in (({"model_type": "transformer"}, "SATFormerForCausalLM"),
                                 ({"rope_thata": 5.0}, "Did you mean 'rope_theta'?")):
            with open(path, "w") as f:
                json.dump(config | change, f)
            self.assertIn(expected, run("eval", "--model", odd, "--data-dir", self.data, code=5)[1])
        with open(path, "w") as f:
            json.dump(config | {"transformers_version": "4.53.3", "sep_token_id": None}, f)
        run("eval", "--model", odd, "--data-dir", self.data)

    def test_shards_of_another_tokenizer_are_refused(self):
        other = os.path.join(self.folder, "other")
        shutil.copytree(self.data, other)
        path = os.path.join(other, "manifest.json")
        with open(path) as f:
            manifest = json.load(f)
        manifest["tokenizer"]["sha256"] = "0" * 64
        with open(path, "w") as f:
            json.dump(manifest, f)
        for command in ("eval", "gates"):
            self.assertIn("another tokenizer", run(command, "--model", self.run_of("SATFormer"), "--data-dir", other, code=4)[1])

    def test_checkpoint_command(self):
        source = self.run_of("SATFormer")
        self.assertIn("30", run("checkpoint", "ls", source)[0])
        self.assertIn("whole", run("checkpoint", "verify", source)[0])
        self.assertIn("0 differences", run("checkpoint", "diff", source, source)[0])
        out = run("checkpoint", "diff", source, self.run_of("ResFormer"), code=1)[0]
        self.assertIn("alpha_proj.weight", out)
        self.assertIn("config /model_type", out)
        copy = os.path.join(self.folder, "copied-run")
        shutil.copytree(source, copy)
        self.assertIn("removed 0, kept 1", run("checkpoint", "prune", copy, "--keep", "1")[0])
        step = os.path.join(copy, "checkpoints", "step-00000030")
        second = os.path.join(copy, "checkpoints", "step-00000031")
        shutil.copytree(step, second)
        with open(os.path.join(second, "optimizer.safetensors"), "r+b") as f:
            f.seek(-1, os.SEEK_END)
            f.write(b"\x7f")
        self.assertIn("damaged", run("checkpoint", "verify", copy, code=5)[0])
        self.assertIn("step-00000031", run("checkpoint", "prune", copy, "--keep", "1", code=5)[1])
        self.assertTrue(os.path.exists(step))
        self.assertIn("'verify'", run("checkpoint", "verfy", copy, code=2)[1])
        self.assertIn("prune", run("checkpoint", "ls", copy, "--keep", "1", code=2)[1])

    def test_bench(self):
        output = os.path.join(self.folder, "bench")
        out = run("bench", "--scale", "tiny", "-a", "satformer", "-a", "hyperconnections", "--batch-size", "1", "--context", "16",
                  "--rounds", "2", "--seconds", "0.01", "--max-foreign", "1", "--model.vocab_size=64", "-o", output)[0]
        self.assertIn("satformer", out)
        with open(os.path.join(output, "bench.json")) as f:
            result = json.load(f)
        self.assertEqual([arm["arm"] for arm in result["arms"]], ["satformer", "hyperconnections"])
        self.assertEqual(result["model"]["vocab_size"], 64)
        for arm in result["arms"]:
            self.assertEqual(len(arm["rounds"]), 2)
            self.assertGreater(arm["tokens_per_second"], 0)
            self.assertGreater(arm["peak_bytes"], 1e6)
        ElementTree.parse(os.path.join(output, "bench.svg"))
        for phase in ("prefill", "decode"):
            run("bench", "--scale", "tiny", "-a", "satformer", "--phase", phase, "--batch-size", "2", "--context", "8", "--rounds",
                "1", "--seconds", "0.01", "--max-foreign", "1", "--model.vocab_size=64")
        peer = "echo '{\"tok_s\": 5, \"rss_mib\": 1}' # {arch}"
        out = run("bench", "--scale", "tiny", "-a", "satformer", "--context", "8", "--rounds", "1", "--seconds", "0.01", "--peer", peer,
                  "--max-foreign", "1", "--model.vocab_size=64")[0]
        self.assertIn("5.0", out)
        run("bench", "--scale", "tiny", "-a", "satformer", "--phase", "prefill", "--batch-size", "1", "--context", "8", "--rounds", "1",
            "--seconds", "0.01", "--dtype", "pure-bfloat16")
        self.assertIn("Did you mean 'small'?", run("bench", "--scale", "smal", code=2)[1])
        self.assertIn("Did you mean", run("bench", "-a", "satformr", code=3)[1])
        self.assertIn("exit code 3", run("bench", "--scale", "tiny", "-a", "satformer", "--context", "8", "--peer", "exit 3", code=6)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
