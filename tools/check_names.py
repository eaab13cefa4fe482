#!/usr/bin/env python3
"""No type is defined twice in one namespace: the linker would take the members of one for those of both (the one
definition rule), without a word. Types of anonymous namespaces are their file's own and do not count."""

import argparse
import collections
import pathlib
import re
import sys

ANONYMOUS = re.compile(r"^namespace \{\n.*?^\}  // namespace\n", re.M | re.S)
OPENED = re.compile(r"^namespace ([\w:]+) \{", re.M)
DEFINED = re.compile(r"^(?:struct|class|enum class)(?: alignas\(\w+\))? (\w+)(?: final)?(?: :[^;{]*)? \{", re.M)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    places = collections.defaultdict(list)
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cuh", ".cu"}:
            continue
        text = ANONYMOUS.sub("", path.read_text(encoding="utf-8"))
        spaces = OPENED.findall(text)
        for name in DEFINED.findall(text):
            places["::".join([*spaces[:1], name])].append(str(path.relative_to(root)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    for name, files in sorted(twice.items()):
        print(f"{name} is defined in {' and in '.join(files)}: rename one")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
