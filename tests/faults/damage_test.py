#!/usr/bin/env python3
"""Flips bits in every file of a checkpoint and of final/, and cuts them: nothing damaged may load.

`checkpoint verify` judges all; a part is given to `train --resume` and to `generate`, which must refuse with exit code 5.

Usage: damage_test.py SATFORMER [--flips 1000] [--cuts 500] [--loads 40] [--seed S] [--large]
"""

import argparse
import os
import random
import shutil
import sys
import subprocess

from tiny_run import Workplace


def damage(path, kind, source):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        if kind == "cut":
            file.truncate(source.randrange(size))
            return
        at = source.randrange(size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << source.randrange(8))]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("satformer")
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--loads", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", action="store_true", help="with checkpoints that are written past the page cache")
    options = parser.parse_args()
    source = random.Random(options.seed)
    failures = 0
    with Workplace(options.satformer, options.large) as place:
        more = ["--tokenizer.name_or_path=byte", "--model.config_overrides.vocab_size=259"]
        place.train("run", *more, window_log=False)
        whole = [place.path("run", "checkpoints", "step-00000024"), place.path("run", "final")]
        if list(place.verify(whole).values()) != ["whole", "whole"]:
            raise SystemExit("an undamaged checkpoint does not verify")
        targets = [(folder, name) for folder in whole for name in sorted(os.listdir(folder))]
        for kind, count in (("flip", options.flips), ("cut", options.cuts)):
            unnoticed, batch = 0, []
            for number in range(count):
                folder, name = targets[number % len(targets)]
                copy = place.path("damaged%d" % number)
                shutil.copytree(folder, copy)
                damage(os.path.join(copy, name), kind, source)
                batch.append((copy, name))
                if len(batch) == 100 or number == count - 1:
                    found = place.verify([path for path, _ in batch])
                    for path, of in batch:
                        if found.get(path) != "damaged":
                            unnoticed += 1
                            print("  a %s of %s is not noticed: %s" % (kind, of, found.get(path)))
                        shutil.rmtree(path)
                    batch = []
            print("%ss of the %d files of a checkpoint and final/: %d, unnoticed %d"
                  % ({"flip": "bit flip", "cut": "truncation"}[kind], len(targets), count, unnoticed), flush=True)
            failures += unnoticed
        refused = 0
        for number in range(options.loads):
            folder, name = targets[number % len(targets)]
            final = folder.endswith("final")
            copy = place.path("load")
            shutil.copytree(place.path("run"), copy)
            damage(os.path.join(copy, os.path.relpath(folder, place.path("run")), name), source.choice(["flip", "cut"]), source)
            if final:
                command = [place.satformer, "generate", "--model", copy + "/final", "--prompt", "a", "--max-new-tokens", "1"]
            else:
                command = place.command("load", *more, "--training.max_tokens=0.001", "--max-steps", "25", window_log=False)
            done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=600)
            refused += done.returncode == 5
            if done.returncode != 5:
                failures += 1
                print("  %s with a damaged %s: exit code %d %s" % (command[1], name, done.returncode, done.stderr.strip()[-200:]))
            shutil.rmtree(copy)
        print("train --resume and generate on damaged files: %d, refused %d" % (options.loads, refused), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
