#!/usr/bin/env python3
"""Accepts and rejects mutated safetensors files as the official package does (PyPI's `safetensors`; skipped without it).

Two rules of ours are stricter and are counted apart: a name given twice, which their reader takes for one of the two,
and what our reader's 64-bit signed extents cannot hold.

Usage: safetensors_test.py SAFETENSORS_CHECK [--count 10000] [--seed S]
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    import safetensors
except ImportError:
    safetensors = None

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
         "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8, "C64": 8}
VALUES = [0, 1, -1, 2, 3, 8, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 1.0, 1e3, 0.5, True, None, "4",
          "", [], [1], [[2]], {}, "F32", "f32", "F4", "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64", "C128", "__metadata__"]


class Pairs(list):
    """An object as its (key, value) pairs, so that keys may come twice."""


def text_of(value, source):
    if isinstance(value, Pairs):
        space = " " if source.random() < 0.2 else ""
        return "{" + ("," + space).join(json.dumps(k) + ":" + space + text_of(v, source) for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(v, source) for v in value) + "]"
    return json.dumps(value)


def valid(source):
    pairs, offset = Pairs(), 0
    if source.random() < 0.5:
        pairs.append(("__metadata__", Pairs([("format", "pt")] * (source.random() < 0.9))))
    for name in source.sample(["a", "b.weight", "model.layers.0.v", "\u00e9", "x" * 40], source.randrange(4)):
        dtype = source.choice(list(SIZES))
        shape = [source.randrange(4) for _ in range(source.randrange(4))]
        size = SIZES[dtype]
        for extent in shape:
            size *= extent
        pairs.append((name, Pairs([("dtype", dtype), ("shape", shape), ("data_offsets", [offset, offset + size])])))
        offset += size
    return pairs, offset


def mutate_header(pairs, source):
    """One change somewhere in the header's tree."""
    where, trail = pairs, None
    while True:
        if not where or source.random() < 0.25:
            break
        index = source.randrange(len(where))
        child = where[index][1] if isinstance(where, Pairs) else where[index]
        trail = (where, index)
        if not isinstance(child, list):
            break
        where = child
    kind = source.randrange(6)
    if isinstance(where, Pairs) and where and kind == 0:
        where.append(where[source.randrange(len(where))])  # twice
    elif isinstance(where, Pairs) and kind == 1:
        where.append((source.choice(["extra", "dtype", "shape", "data_offsets", "__metadata__", "a"]), source.choice(VALUES)))
    elif where and kind == 2:
        where.pop(source.randrange(len(where)))
    elif isinstance(where, Pairs) and where and kind == 3:
        index = source.randrange(len(where))
        where[index] = (source.choice(["dtypes", "Shape", "", "data_offset", "__metadata__"]), where[index][1])
    elif where and kind == 4:
        source.shuffle(where)
    elif trail:
        container, index = trail
        value = source.choice(VALUES)
        old = container[index][1] if isinstance(container, Pairs) else container[index]
        if isinstance(old, int) and source.random() < 0.6:
            value = old + source.choice([-1, 1, 4, 8])
        container[index] = (container[index][0], value) if isinstance(container, Pairs) else value


def mutant(source):
    pairs, size = valid(source)
    for _ in range(source.choice([0, 1, 1, 1, 2])):
        mutate_header(pairs, source)
    header = text_of(pairs, source).encode()
    if source.random() < 0.3:
        header += b" " * source.randrange(9)
    length = len(header) + source.choice([0] * 12 + [1, -1, 8, 1 << 40])
    data = bytearray(struct.pack("<Q", max(0, length)) + header + bytes(max(0, size + source.choice([0] * 14 + [1, -1, 8]))))
    if source.random() < 0.4:
        for _ in range(source.randrange(1, 3)):
            at = source.randrange(len(data))
            kind = source.randrange(4)
            if kind == 0:
                data[at] ^= 1 << source.randrange(8)
            elif kind == 1:
                data[at] = source.choice(b'\x00"{}[],:0-9e. \n\t\xff\xc3')
            elif kind == 2:
                del data[at:at + source.randrange(1, 5)]
            else:
                data[at:at] = bytes([source.randrange(256)])
            if not data:
                break
    return bytes(data)


def official(data):
    try:
        safetensors.deserialize(data)
        return True
    except Exception:  # its error type is its own
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if safetensors is None:
        print("safetensors: skipped, the package of this name is not installed for this Python")
        return 0
    source = random.Random(options.seed)
    accepted = differ = twice = large = 0
    with tempfile.TemporaryDirectory() as folder:
        inputs = [mutant(source) for _ in range(options.count)]
        paths = [os.path.join(folder, "%d.safetensors" % i) for i in range(len(inputs))]
        for path, data in zip(paths, inputs):
            with open(path, "wb") as out:
                out.write(data)
        done = subprocess.run([options.check], input="\n".join(paths) + "\n", capture_output=True, encoding="utf-8",
                              errors="replace", check=True)
        ours = done.stdout.split("\n")[:-1]
        for path, data, line in zip(paths, inputs, ours):
            theirs = official(data)
            accepted += theirs
            if line.startswith("accept") == theirs:
                continue
            if theirs and "twice" in line:
                twice += 1
            elif theirs and "too large" in line:
                large += 1
            else:
                differ += 1
                if differ <= 30:
                    print("  official %s, ours %s\n    %r" % ("accepts" if theirs else "rejects", line.replace(path, "FILE"), data[:300]))
    print("safetensors %s: %d mutated files, %d accepted by it, %d disagreements; stricter here: %d keys given twice, %d extents"
          % (safetensors.__version__, options.count, accepted, differ, twice, large))
    return 1 if differ or len(ours) != options.count else 0


if __name__ == "__main__":
    sys.exit(main())
