#!/usr/bin/env python3
"""Holds the includes of src/ to the levels: a folder may use those above its line, never below."""

import argparse
import pathlib
import re
import sys

LEVELS = [
    "base",
    "io",
    "report",
    "jinja",
    "kernels",
    "nn",
    "models",
    "probe",
    "distributed",
    "checkpoint",
    "data",
    "track",
    "infer",
    "train",
    "eval",
    "analysis",
    "bench",
    "compare",
    "serve",
    "cli",
    "python",
]
# These four never include one another: cli puts them together.
SEPARATE = {"train", "eval", "analysis", "serve"}
# Built without libtorch too (the sanitizer build), so they use no folder that needs it.
WITHOUT_TORCH = {"base", "io", "report", "jinja", "data", "track"}

SOURCES = {".h", ".cpp", ".cu", ".cuh"}
CUDA = {".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
# Umbrella headers: ten to twenty seconds for each file that includes one.
UMBRELLA = {"torch/torch.h", "torch/all.h", "torch/extension.h", "torch/script.h", "ATen/ATen.h"}


def includes(path):
    """Yields (line number, is it quoted, name) of every include."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == '"', match[2]


def problems_of_include(folder, path, quoted, name):
    if name in UMBRELLA:
        yield f"<{name}> is an umbrella header: include kernels/tensor.h and single <ATen/ops/NAME.h>"
    elif TORCH.match(name) and folder in WITHOUT_TORCH:
        yield f"<{name}>: {folder} is built without libtorch"
    elif TORCH.match(name) and path.suffix in CUDA:
        yield f"<{name}>: CUDA sources are kept free of torch headers"
    if not quoted:
        return
    parts = name.split("/")
    if len(parts) < 2 or parts[0] not in LEVELS:
        yield f'"{name}": write includes from src/, beginning with one of its folders'
        return
    used = parts[0]
    if folder is None or used == folder:
        return
    if LEVELS.index(used) > LEVELS.index(folder):
        yield f'"{name}": {folder} is above {used} and must not use it'
    elif {used, folder} <= SEPARATE:
        yield f'"{name}": {", ".join(sorted(SEPARATE))} do not include one another'
    elif folder in WITHOUT_TORCH and used not in WITHOUT_TORCH:
        yield f'"{name}": {folder} is built without libtorch, which {used} needs'


def check(root):
    problems = []
    src = root / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix not in SOURCES:
            continue
        parts = path.relative_to(src).parts
        folder = parts[0] if len(parts) > 1 else None
        if folder not in LEVELS:
            problems.append(f"{path.relative_to(root)}: not in a folder that has a level (tools/check_levels.py)")
            continue
        for number, quoted, name in includes(path):
            for problem in problems_of_include(folder, path, quoted, name):
                problems.append(f"{path.relative_to(root)}:{number}: {problem}")
    # Tests that cross folders may use all of them.
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in SOURCES:
            for number, _, name in includes(path):
                if name in UMBRELLA:
                    problems.append(f"{path.relative_to(root)}:{number}: <{name}> is an umbrella header")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    problems = check(parser.parse_args().root)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
