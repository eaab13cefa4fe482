#!/usr/bin/env python3
"""Checks and times satformer on a machine with an NVIDIA GPU, and writes one JSON.

Sets up what the build needs, builds with CUDA for this GPU, runs the kernels' tests on it against their references, the
golden cases, and a throughput table of all six architectures. Every step is run, also after one that failed, unless it
needs what the failed one should have made. Exit codes: 0 all passed, 1 a step failed, 2 wrong usage or no GPU here.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "cuda"
TAIL = 6000  # characters of a step's output that the JSON keeps


def refuse(message):
    print(f"gpu_check: {message}", file=sys.stderr)
    sys.exit(2)


def find_gpu():
    """What nvidia-smi says of the first GPU."""
    if not shutil.which("nvidia-smi"):
        refuse("no NVIDIA GPU: nvidia-smi is not installed")
    fields = ["name", "compute_cap", "driver_version", "memory.total", "power.limit"]
    query = subprocess.run(
        ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=False,
    )
    lines = [line for line in query.stdout.splitlines() if line.count(",") == len(fields) - 1]
    if query.returncode != 0 or not lines:
        refuse(f"no NVIDIA GPU: nvidia-smi says: {(query.stderr or query.stdout).strip() or 'nothing'}")
    gpu = dict(zip(fields, (value.strip() for value in lines[0].split(","))))
    if not re.fullmatch(r"\d+\.\d", gpu["compute_cap"]):
        refuse(f"nvidia-smi gives no compute capability but '{gpu['compute_cap']}'")
    if float(gpu["compute_cap"]) < 8.0:
        refuse(f"{gpu['name']} has compute capability {gpu['compute_cap']}; 8.0 or later is needed")
    gpu["count"] = len(lines)
    return gpu


def find_nvcc():
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not nvcc:
        refuse("nvcc is neither on PATH nor in /usr/local/cuda/bin: install the CUDA toolkit, 12.8 or later")
    return nvcc


class Steps:
    """Runs commands, prints how they went, and keeps it."""

    def __init__(self):
        self.done = []

    def run(self, name, command, timeout, env=None):
        print(f"gpu_check: {name}: {' '.join(map(str, command))}", flush=True)
        start = time.monotonic()
        try:
            process = subprocess.run(
                [str(part) for part in command], cwd=ROOT, env={**os.environ, **(env or {})}, timeout=timeout,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
            )
            code, output = process.returncode, process.stdout
        except subprocess.TimeoutExpired as expired:
            code, output = None, (expired.stdout or b"").decode(errors="replace") + f"\nstopped after {timeout} s"
        except OSError as error:
            code, output = None, str(error)
        seconds = round(time.monotonic() - start, 1)
        passed = code == 0
        if not passed:
            print(output[-TAIL:])
        print(f"gpu_check: {name}: {'ok' if passed else 'FAILED'} ({seconds} s)", flush=True)
        self.done.append(
            {"name": name, "passed": passed, "exit_code": code, "seconds": seconds, "output": output[-TAIL:]}
        )
        return passed


def torch_with_cuda(steps, chosen):
    """The folder of an installed torch whose libraries for CUDA are beside it."""
    if chosen:
        return chosen
    version = re.search(r"^torch==(\S+)", (ROOT / "tools" / "requirements.txt").read_text(encoding="utf-8"), re.M)[1]
    target = ROOT / ".deps" / f"torch-{version}-cuda"
    if not (target / "torch" / "lib" / "libtorch_cuda.so").exists():
        partial = target.with_name(f".partial-{target.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", partial]
        if not steps.run("torch with its CUDA libraries", [*pip, f"torch=={version}"], 1200):
            shutil.rmtree(partial, ignore_errors=True)
            return None
        partial.rename(target)
    return target / "torch"


def measure(steps, options):
    """One throughput table per scale; returns them by scale."""
    tables = {}
    for scale in options.scales.split(","):
        folder = BUILD / f"gpu_check-{scale}"
        command = [BUILD / "satformer", "bench", "--device", "cuda", "--dtype", "bfloat16", "--scale", scale]
        command += ["--context", options.context, "--batch-size", options.batch_size, "--rounds", options.rounds]
        if steps.run(f"throughput, {scale}", [*command, "--output", folder], 1200):
            tables[scale] = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("gpu_check.json"), help="the JSON to write")
    parser.add_argument("--torch", type=pathlib.Path, help="an installed torch with CUDA instead of a download")
    parser.add_argument("--scales", default="small,large", help="of the throughput table; empty for none")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.torch and not (options.torch / "lib" / "libtorch_cuda.so").exists():
        refuse(f"--torch {options.torch}: no lib/libtorch_cuda.so in it")
    for name in ("context", "batch_size", "rounds", "jobs"):
        if getattr(options, name) < 1:
            refuse(f"--{name.replace('_', '-')} {getattr(options, name)} must be at least 1")
    if not options.output.parent.is_dir():
        refuse(f"--output {options.output}: no such folder")
    gpu, nvcc = find_gpu(), find_nvcc()
    print(f"gpu_check: {gpu['name']}, compute capability {gpu['compute_cap']}, driver {gpu['driver_version']}")

    steps = Steps()
    tables = {}
    torch = torch_with_cuda(steps, options.torch)
    architecture = gpu["compute_cap"].replace(".", "")
    settings = {
        "TORCH": str(torch),
        "CMAKE_ARGS": f"-DCMAKE_CUDA_ARCHITECTURES={architecture} -DCMAKE_CUDA_COMPILER={nvcc}",
    }
    targets = ["--target", "satformer", "kernels_test"]
    if (
        torch
        and steps.run("set-up", ["tools/setup.sh"], 1200, settings)
        and steps.run("configure", ["tools/configure.sh", "cuda"], 300, settings)
        and steps.run("build", ["cmake", "--build", BUILD, "-j", options.jobs, *targets], 3600)
    ):
        steps.run("kernels against their references", [BUILD / "kernels_test"], 900, {"SATFORMER_TEST_CUDA": "1"})
        verify = [BUILD / "satformer", "verify", "tests/golden", "--device", "cuda"]
        steps.run("golden cases", verify, 900)
        if options.scales:
            tables = measure(steps, options)

    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    passed = all(step["passed"] for step in steps.done)
    report = {"passed": passed, "gpu": gpu, "commit": commit.stdout.strip(), "steps": steps.done, "throughput": tables}
    partial = options.output.with_name(options.output.name + ".partial")
    partial.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    partial.replace(options.output)
    print(f"gpu_check: {'passed' if passed else 'FAILED'}, {options.output}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
