#!/usr/bin/env python3
"""Kills training with SIGKILL at random points and resumes it: every run must end as one that was never stopped.

Compared: final weights and those of every checkpoint, optimizer, position, seed, metrics without the clock's
figures, and the log of windows. A third of the kills fall inside the writing of a checkpoint.

Usage: kill_test.py SATFORMER [--count 200] [--others 20] [--seed S] [--async]
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from tiny_run import ARCHITECTURES, Workplace, content, differences


def being_written(checkpoints):
    try:
        return any(name.startswith(".tmp-step-") for name in os.listdir(checkpoints))
    except FileNotFoundError:
        return False


class Killer:
    def __init__(self, place, source, more):
        self.place, self.source, self.more = place, source, more
        self.kills = self.inside = self.number = 0

    def kill_once(self, run, architecture, inside, length):
        """True if the process died by the signal, at a point inside a save if asked to."""
        command = self.place.command(run, *self.more, architecture=architecture)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        start = time.time()
        checkpoints = self.place.path(run, "checkpoints")
        if inside:
            saves = self.source.randrange(1, 6)  # of which the last is met
            while process.poll() is None and saves > 0:
                if being_written(checkpoints):
                    saves -= 1
                    while saves > 0 and process.poll() is None and being_written(checkpoints):
                        pass
            time.sleep(self.source.random() ** 2 * 0.004)
            met = being_written(checkpoints)
        else:
            delay = self.source.uniform(0.2 * length, 0.98 * length)
            while process.poll() is None and time.time() - start < delay:
                time.sleep(0.001)
            met = True
        process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL and met and (not inside or being_written(checkpoints))

    def point(self, architecture, inside, length, expected, windows):
        """Kills one run, now and then twice, finishes it and compares. Returns what differs; None without a kill."""
        self.number += 1
        run = "run%d" % self.number
        killed = self.kill_once(run, architecture, inside, length)
        if killed and self.source.random() < 0.2:
            self.kill_once(run, architecture, False, length)
        self.place.train(run, *self.more, architecture=architecture)
        different = differences(expected, content(self.place.path(run)))
        with open(self.place.path(run + ".windows"), "rb") as file:
            if file.read() != windows:
                different.append("window log")
        if any(name.startswith(".tmp") for name in os.listdir(self.place.path(run, "checkpoints"))):
            different.append("leftovers")
        shutil.rmtree(self.place.path(run))
        os.remove(self.place.path(run + ".windows"))
        return different if killed or different else None

    def many(self, architecture, count):
        whole = "whole-" + architecture
        self.place.train(whole, architecture=architecture)
        start = time.time()
        self.place.train(whole + "-again", architecture=architecture)
        length = time.time() - start
        expected = content(self.place.path(whole))
        for options in (expected, content(self.place.path(whole + "-again"))):
            if differences(expected, options):
                raise SystemExit("two unbroken runs differ in %s" % differences(expected, options))
        if self.more:  # what is saved must not depend on how
            expected = {name: value for name, value in expected.items() if not name.endswith("run_config.json")}
        with open(self.place.path(whole + ".windows"), "rb") as file:
            windows = file.read()
        failures = kills = inside = tries = 0
        while kills < count and tries < 6 * count + 20:
            tries += 1
            now_inside = kills % 3 == 0
            different = self.point(architecture, now_inside, length, expected, windows)
            if different is None:
                continue
            different = [name for name in different if not (self.more and name.endswith("run_config.json"))]
            kills += 1
            inside += now_inside
            if different:
                failures += 1
                print("  %s, kill %d: differs in %s" % (architecture, kills, ", ".join(different)))
        print("kill -9, %s: %d kills, %d inside a checkpoint's writing, %d resumes differ from the unbroken run"
              % (architecture + (" (async)" if self.more else ""), kills, inside, failures), flush=True)
        return failures + (kills < count)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("satformer")
    parser.add_argument("--count", type=int, default=200, help="kills of SATFormer")
    parser.add_argument("--others", type=int, default=20, help="kills of each other architecture")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--async", dest="background", action="store_true", help="checkpoints are written in the background")
    options = parser.parse_args()
    failed = 0
    with Workplace(options.satformer) as place:
        more = ["--checkpointing.async=true"] if options.background else []
        killer = Killer(place, random.Random(options.seed), more)
        for architecture in ARCHITECTURES:
            count = options.count if architecture == "satformer" else options.others
            if count > 0:
                failed += killer.many(architecture, count)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
