#!/usr/bin/env python3
"""Tests of the check scripts: each must refuse what it is there to refuse."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent


def run(script, files):
    """Runs a check over a tree of {path: text}; returns (exit code, output)."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, TOOLS / script, "--root", root], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr


class Levels(unittest.TestCase):
    def accepts(self, path, line):
        code, output = run("check_levels.py", {path: line + "\n"})
        self.assertEqual(code, 0, output)

    def refuses(self, path, line):
        code, output = run("check_levels.py", {path: "\n" + line + "\n"})
        self.assertEqual(code, 1, output)
        self.assertIn(f"{path}:2: ", output)

    def test_accepts_upward_includes(self):
        self.accepts("src/nn/block.cpp", '#include "kernels/tensor.h"')
        self.accepts("src/cli/train.cpp", '#include "train/loop.h"')
        self.accepts("src/train/loop_test.cpp", '#include "checkpoint/model_io.h"')
        self.accepts("src/nn/block.cpp", "#include <ATen/ops/linear.h>")
        self.accepts("src/base/error.cpp", '// #include "nn/block.h"')
        self.accepts("tests/resume.cpp", '#include "cli/command.h"')

    def test_refuses_downward_includes(self):
        self.refuses("src/base/error.cpp", '#include "io/file.h"')
        self.refuses("src/kernels/rms_norm/rms_norm.h", '#include "nn/block.h"')
        self.refuses("src/nn/block_test.cpp", '  #  include "models/registry.h"')

    def test_refuses_separate_parts(self):
        self.refuses("src/eval/harness.cpp", '#include "train/loop.h"')
        self.refuses("src/serve/server.cpp", '#include "analysis/gates.h"')

    def test_refuses_torch(self):
        self.refuses("src/base/error.h", "#include <c10/util/Exception.h>")
        self.refuses("src/report/chart.cpp", "#include <torch/types.h>")
        self.refuses("src/data/windows.h", '#include "kernels/tensor.h"')
        self.refuses("src/nn/block.cpp", "#include <torch/torch.h>")
        self.refuses("src/nn/block.h", "#include <ATen/ATen.h>")
        self.refuses("src/kernels/rms_norm/cuda.cu", "#include <ATen/core/Tensor.h>")
        self.refuses("tests/resume.cpp", "#include <torch/torch.h>")

    def test_refuses_unknown_places(self):
        self.refuses("src/nn/block.cpp", '#include "norm.h"')
        code, output = run("check_levels.py", {"src/misc/misc.cpp": ""})
        self.assertEqual(code, 1, output)


class Sizes(unittest.TestCase):
    def test_limit(self):
        self.assertEqual(run("check_sizes.py", {"src/base/a.cpp": "x\n" * 600})[0], 0)
        code, output = run("check_sizes.py", {"src/base/a.cpp": "x\n" * 601})
        self.assertEqual(code, 1)
        self.assertIn("src/base/a.cpp: 601 lines", output)


class Names(unittest.TestCase):
    def test_one_definition(self):
        one = "namespace satformer {\n\nstruct Row {\n  int a;\n};\n}  // namespace satformer\n"
        own = one.replace("namespace satformer {\n", "namespace satformer {\nnamespace {\n").replace(
            "};\n", "};\n}  // namespace\n")
        other = one.replace("struct Row {", "class Row final : public Base {")
        self.assertEqual(run("check_names.py", {"src/a/a.h": one, "src/b/b.cpp": own})[0], 0)
        self.assertEqual(run("check_names.py", {"src/a/a.h": one, "src/b/b.h": other.replace("satformer", "other")})[0], 0)
        self.assertEqual(run("check_names.py", {"src/a/a.h": one, "src/b/b.h": "struct Row;\n"})[0], 0)
        code, output = run("check_names.py", {"src/a/a.h": one, "src/b/b.h": other})
        self.assertEqual(code, 1)
        self.assertIn("satformer::Row is defined in src/a/a.h and in src/b/b.h", output)


class GpuCheck(unittest.TestCase):
    def refuses(self, smi, message, *arguments):
        """With an nvidia-smi that runs the shell text `smi`, or none."""
        with tempfile.TemporaryDirectory() as folder:
            if smi is not None:
                program = pathlib.Path(folder) / "nvidia-smi"
                program.write_text(f"#!/bin/sh\n{smi}\n", encoding="utf-8")
                program.chmod(0o755)
            done = subprocess.run(
                [sys.executable, TOOLS / "gpu_check.py", *arguments],
                env={"PATH": folder}, cwd=folder, capture_output=True, text=True, check=False,
            )
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse((pathlib.Path(folder) / "gpu_check.json").exists())

    def test_refuses_a_machine_without_a_gpu(self):
        self.refuses(None, "nvidia-smi is not installed")
        self.refuses("echo no devices found >&2; exit 6", "no devices found")
        self.refuses("true", "no NVIDIA GPU")
        self.refuses("echo 'T4, 7.5, 500.1, 15000, 70'", "8.0 or later is needed")
        self.refuses("echo 'X, [N/A], 500.1, 15000, 70'", "no compute capability")

    def test_refuses_nonsense(self):
        self.refuses(None, "--rounds 0", "--rounds", "0")
        self.refuses(None, "no lib/libtorch_cuda.so", "--torch", "nowhere")
        self.refuses(None, "no such folder", "--output", "nowhere/x.json")


if __name__ == "__main__":
    unittest.main(verbosity=0)
