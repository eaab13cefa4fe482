#!/usr/bin/env python3
"""Makes the system calls of a save fail, and files stop growing: the previous checkpoint must stay whole.

Every call that a save makes on its files and folders fails once, and then again for ever from that call on (strace's
injection; skipped where a process may not be traced). Where the program gives up, its exit code is not 0 and its
message names a file of the run and the reason; where it goes on (a folder that cannot be listed again, say), what it
saved is whole. Then the largest file size a process may write (prlimit) is lowered in steps through a whole save.

Usage: io_test.py SATFORMER [--every 1] [--offsets 500] [--large]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

from tiny_run import Workplace, content, differences

SAVED, NEXT = 4, 8
ERRORS = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}
CALLS = ["mkdir", "mkdirat", "openat", "write", "fsync", "fdatasync", "close", "rename", "renameat", "renameat2", "unlink",
         "unlinkat", "rmdir", "getdents64", "read", "fcntl", "newfstatat", "stat", "statx", "lstat"]
LINE = re.compile(r"^(\d+ +)?(?P<call>\w+)\(.*$")


def traced_paths(place, run):
    """The paths of a save of step NEXT, in and beside its folder."""
    checkpoints = place.path(run, "checkpoints")
    names = ["model.safetensors", "config.json", "optimizer.safetensors", "run_config.json", "state.json"]
    folder = os.path.join(checkpoints, ".tmp-step-%08d" % NEXT)
    paths = [checkpoints, folder, os.path.join(checkpoints, "step-%08d" % NEXT)]
    for name in names:
        paths += [os.path.join(folder, name), os.path.join(folder, name + ".tmp")]
    return paths


def strace(place, run, log, call, injection=None):
    prefix = ["strace", "-f", "-qq", "-o", log, "-e", "trace=" + call, "-e", "signal=none"]
    for path in traced_paths(place, run):
        prefix += ["-P", path]
    if injection:
        prefix += ["-e", "inject=%s:%s" % (call, injection)]
    return place.train(run, "--max-steps", str(NEXT), prefix=prefix, code=None, window_log=False)


def can_trace():
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode == 0


def calls_of(log):
    with open(log, errors="replace") as file:
        return [m["call"] for m in map(LINE.match, file) if m]


class Injector:
    def __init__(self, place):
        self.place, self.number, self.left = place, 0, []
        self.base = place.path("base")
        place.train("base", "--max-steps", str(SAVED), window_log=False)
        self.before = content(self.base)

    def copy(self):
        self.number += 1
        run = "inject%d" % self.number
        shutil.copytree(self.base, self.place.path(run))
        return run

    def known_calls(self):
        log = self.place.path("calls")
        found = {}
        for call in CALLS:
            run = self.copy()
            done = strace(self.place, run, log, call)
            if done.returncode != 0 and "Invalid system call" not in done.stderr:
                if "invalid system call" in done.stderr:
                    continue
                raise SystemExit(done.stderr)
            count = len([c for c in calls_of(log) if c == call])
            if count:
                found[call] = count
            shutil.rmtree(self.place.path(run))
        return found

    def inject(self, call, number, forever, error):
        """(was it injected, did the run give up, list of faults)."""
        run = self.copy()
        path = self.place.path(run)
        log = self.place.path("log")
        done = strace(self.place, run, log, call, "error=%s:when=%d%s" % (error, number, "+" if forever else ""))
        with open(log, errors="replace") as file:
            hit = file.read().count("(INJECTED)")
        faults = []
        left = content(path)
        old = "checkpoints/step-%08d/" % SAVED
        if any(left.get(name) != value for name, value in self.before.items() if name.startswith(old)):
            faults.append("the previous checkpoint changed")
        gave_up = done.returncode != 0
        if gave_up:
            message = [line for line in done.stderr.splitlines() if "error:" in line]
            if done.returncode != 6 or len(message) != 1 or path not in message[0] or ERRORS[error] not in message[0]:
                faults.append("exit code %d: %s" % (done.returncode, done.stderr.strip()[-300:]))
        if not gave_up and not os.path.exists(os.path.join(path, "checkpoints", "step-%08d" % NEXT)):
            faults.append("nothing was saved, and the exit code is 0")
        self.left.append(path)
        return hit, gave_up, faults

    def judge_left(self):
        """What the injections left is whole, and one of them is trained on."""
        whole = self.place.verify(self.left)
        faults = ["%s is %s" % item for item in whole.items() if item[1] != "whole"]
        if len(whole) < len(self.left):
            faults.append("%d runs, %d checkpoints" % (len(self.left), len(whole)))
        if self.left:
            self.place.train(os.path.basename(self.left[-1]), "--max-steps", str(NEXT), window_log=False)
        for path in self.left:
            shutil.rmtree(path)
        self.left = []
        return faults


def injections(place, every):
    if not can_trace():
        print("I/O calls: skipped, strace is not here or may not trace")
        return 0
    injector = Injector(place)
    known = injector.known_calls()
    print("I/O calls of a save: %d (%s)" % (sum(known.values()), ", ".join("%d %s" % (n, c) for c, n in known.items())), flush=True)
    made = gave_up = missed = failures = position = 0
    for call, count in known.items():
        for number in range(1, count + 1):
            for forever in (False, True):
                position += 1
                if position % every:
                    continue
                error = "ENOSPC" if call in ("write", "mkdir", "openat") and position % 2 else "EIO"
                hit, ended, faults = injector.inject(call, number, forever, error)
                made += hit > 0
                missed += hit == 0
                gave_up += ended
                if len(injector.left) == 20:
                    faults += injector.judge_left()
                if faults:
                    failures += 1
                    print("  %s number %d%s: %s" % (call, number, " and on" if forever else "", "; ".join(faults)), flush=True)
    failures += len(injector.judge_left())
    print("I/O calls: %d of them failed (%d not met again), %d ended the run with file and reason, %d harmless, %d faults"
          % (made, missed, gave_up, made - gave_up, failures), flush=True)
    return failures + (made == 0)


def limited(place, offsets):
    place.train("full", "--max-steps", str(SAVED), window_log=False)
    saved = place.path("full", "checkpoints", "step-%08d" % SAVED)
    largest = max(os.path.getsize(os.path.join(saved, name)) for name in os.listdir(saved))
    before = content(place.path("full"))
    kept = {name: value for name, value in before.items() if name.startswith("checkpoints/")}
    failures = ended = 0
    for i in range(offsets):
        limit = (i * largest) // offsets
        run = place.path("limited")
        shutil.copytree(place.path("full"), run)
        done = place.train("limited", "--max-steps", str(NEXT), prefix=["prlimit", "--fsize=%d" % limit], code=None,
                           window_log=False)
        ended += done.returncode == 6
        message = [line for line in done.stderr.splitlines() if "error:" in line]
        left = content(run)
        named = done.returncode == 6 and len(message) == 1 and run in message[0] and "File too large" in message[0]
        same = all(left.get(name) == value for name, value in kept.items())
        whole = place.verify([run])
        if not named or not same or any(state != "whole" for state in whole.values()):
            failures += 1
            print("  limit %d: exit code %d, %s %s" % (limit, done.returncode, done.stderr.strip()[-300:], whole))
        shutil.rmtree(run)
    place.train("full", "--max-steps", str(NEXT), window_log=False)
    print("file size limited to %d sizes within a save: %d ended the run with file and reason, %d faults"
          % (offsets, ended, failures), flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("satformer")
    parser.add_argument("--every", type=int, default=1, help="make only every N-th injection")
    parser.add_argument("--offsets", type=int, default=500)
    parser.add_argument("--large", action="store_true", help="with checkpoints that are written past the page cache")
    options = parser.parse_args()
    with Workplace(options.satformer, options.large) as place:
        failures = injections(place, options.every) + limited(place, options.offsets)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
