#!/usr/bin/env python3
"""No source file has more than 600 lines; prints how long they are."""

import argparse
import pathlib
import statistics
import sys

LIMIT = 600
USUAL = 300
FOLDERS = ["src", "fuzz", "tests", "tools", "cmake", ".ci"]
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    lines = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCES or path.name == "CMakeLists.txt":
                lines[path.relative_to(root)] = len(path.read_text(encoding="utf-8").splitlines())
    for path, count in lines.items():
        if count > LIMIT:
            print(f"{path}: {count} lines, more than {LIMIT}: split it")
    if lines:
        longest = max(lines, key=lines.get)
        print(
            f"sizes: {len(lines)} files, median {statistics.median(lines.values()):.0f} lines, "
            f"{sum(count > USUAL for count in lines.values())} over {USUAL}, longest {lines[longest]} ({longest})"
        )
    return 1 if any(count > LIMIT for count in lines.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
