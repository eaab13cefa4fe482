#!/usr/bin/env python3
"""Kills `prepare` at random points and runs it again with 1, 2 and 4 workers: the output is that of an unbroken run.

Usage: prepare_test.py SATFORMER [--count 100] [--seed S]
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from tiny_run import Workplace, sha256


def outputs(folder):
    return {name: sha256(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("satformer")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    source = random.Random(options.seed)
    with Workplace(options.satformer) as place:
        text = place.path("text.jsonl")
        with open(text, "w") as out:
            for _ in range(4000):
                words = ["w%d" % source.randrange(3000) for _ in range(source.randrange(1, 120))]
                out.write(json.dumps({"text": " ".join(words)}) + "\n")

        def command(folder, workers):
            return [place.satformer, "prepare", text, "--output", folder, "--tokenizer", "byte", "--val-fraction", "0.05",
                    "--shard-tokens", "60000", "--dedup", "--shuffle-buffer", "100", "--workers", str(workers)]

        def run(folder, workers):
            done = subprocess.run(command(folder, workers), capture_output=True, encoding="utf-8", errors="replace")
            if done.returncode != 0:
                raise SystemExit("prepare: %d %s" % (done.returncode, done.stderr))

        whole = place.path("prepared")
        start = time.time()
        run(whole, 2)
        length = time.time() - start
        expected = outputs(whole)
        kills = late = failures = tries = 0
        while kills < options.count and tries < 4 * options.count + 20:
            tries += 1
            folder = place.path("again")
            process = subprocess.Popen(command(folder, source.choice([1, 2, 4])), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            if tries % 2:  # while files get their names
                while process.poll() is None and not os.path.exists(os.path.join(folder, "prepare.unfinished")):
                    pass
                time.sleep(source.random() ** 2 * 0.02)
            else:
                time.sleep(source.uniform(0.2, 1.0) * length)
            process.send_signal(signal.SIGKILL)
            if process.wait() != -signal.SIGKILL:
                shutil.rmtree(folder)
                continue
            kills += 1
            late += os.path.exists(os.path.join(folder, "prepare.unfinished"))
            workers = (1, 2, 4)[kills % 3]
            if not os.path.exists(os.path.join(folder, "manifest.json")):
                run(folder, workers)
            found = outputs(folder)
            if found != expected:
                failures += 1
                print("  kill %d, then %d workers: differs in %s"
                      % (kills, workers, [n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n)]))
            shutil.rmtree(folder)
        print("prepare: %d kills, %d of them while files got their names, %d outputs differ (%d shards)"
              % (kills, late, failures, len(expected) - 2), flush=True)
    return 1 if failures or kills < options.count else 0


if __name__ == "__main__":
    sys.exit(main())
