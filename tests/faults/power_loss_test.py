#!/usr/bin/env python3
"""Simulates losses of power during saves: what was not synced is dropped, cut or reordered.

The real program's system calls are recorded (strace; skipped where a process may not be traced) and replayed into a
model of a disk: writes to a file are safe once the file is synced, names in a folder once the folder is. At a random
call the power goes: of what is not safe a random part is there, in any order, writes cut at any byte. Each state that
comes of it must hold every checkpoint whole as it was before or after, never a mix, and the metrics up to the newest.
`checkpoint verify` reads all of them, and some are trained on to the end.

Usage: power_loss_test.py SATFORMER [--count 1000] [--resumes 20] [--seed S] [--large]
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys

from io_test import can_trace
from tiny_run import STEPS, Workplace, content, differences

CALLS = "openat,mkdir,mkdirat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,close,ftruncate"
CALL = re.compile(r"^(\d+)\s+(\w+)\((.*)\)\s+= (-?\d+)")
STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')


def text_of(match):
    if match[2]:
        raise SystemExit("strace cut a string")
    return bytes.fromhex(match[1].replace("\\x", ""))


class File:
    def __init__(self, data=b""):
        self.safe, self.now, self.unsafe = data, bytearray(data), []

    def write(self, offset, data):
        if len(self.now) < offset + len(data):
            self.now.extend(bytes(offset + len(data) - len(self.now)))
        self.now[offset:offset + len(data)] = data
        self.unsafe.append((offset, data))

    def cut(self):
        self.now = bytearray()
        self.unsafe.append(None)

    def sync(self):
        self.safe, self.unsafe = bytes(self.now), []

    def after_loss(self, source):
        if not self.unsafe or source.random() < 0.2:
            return self.safe
        if source.random() < 0.2:
            return bytes(self.now)
        parts = [part for part in self.unsafe if source.random() < 0.6]
        if source.random() < 0.5:
            source.shuffle(parts)
        data = bytearray(self.safe)
        for part in parts:
            if part is None:
                data = bytearray()
                continue
            offset, written = part
            if source.random() < 0.4:
                written = written[:source.randrange(len(written) + 1)]
            if len(data) < offset + len(written):
                data.extend(bytes(offset + len(written) - len(data)))
            data[offset:offset + len(written)] = written
        return bytes(data)


class Folder:
    """Entries by name; a change is a list of (name, node or None) that happens as one."""

    def __init__(self):
        self.safe, self.now, self.unsafe = {}, {}, []

    def change(self, pairs):
        self.apply(self.now, pairs)
        self.unsafe.append(pairs)

    @staticmethod
    def apply(entries, pairs):
        for name, node in pairs:
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node

    def sync(self):
        self.safe, self.unsafe = dict(self.now), []

    def after_loss(self, source):
        entries = dict(self.safe)
        if source.random() < 0.5:  # a journal keeps the order
            kept = self.unsafe[:source.randrange(len(self.unsafe) + 1)]
        else:
            kept = [pairs for pairs in self.unsafe if source.random() < 0.5]
        for pairs in kept:
            self.apply(entries, pairs)
        return {name: node.after_loss(source) for name, node in entries.items()}


def load_folder(path):
    folder = Folder()
    for name in os.listdir(path):
        child = os.path.join(path, name)
        if os.path.isdir(child):
            folder.now[name] = load_folder(child)
        else:
            with open(child, "rb") as file:
                folder.now[name] = File(file.read())
    folder.sync()
    return folder


class Disk:
    """Replays recorded calls on the tree that a run folder was."""

    def __init__(self, root_path, before, ignore_sync):
        self.prefix, self.root, self.ignore_sync = root_path, load_folder(before), ignore_sync
        self.open = {}  # descriptor: [node, position]
        self.appends = set()

    def place(self, path):
        """The folder that holds `path`, and its last name; None outside of the run."""
        if path == self.prefix:
            return None, ""
        if not path.startswith(self.prefix + "/"):
            return None, None
        names = path[len(self.prefix) + 1:].split("/")
        folder = self.root
        for name in names[:-1]:
            folder = folder.now[name]
        return folder, names[-1]

    def node(self, path):
        folder, name = self.place(path)
        return self.root if name == "" else folder.now.get(name) if folder else None

    def play(self, call, arguments, result):
        """True if the call touched the run."""
        strings = [text_of(m) for m in STRING.finditer(arguments)]
        paths = [s.decode(errors="replace") for s in strings]
        if call == "openat":
            folder, name = self.place(paths[0])
            if name is None:
                self.open.pop(result, None)
                return False
            if "O_CREAT" in arguments and name not in folder.now:
                folder.change([(name, File())])
            node = self.node(paths[0])
            if "O_TRUNC" in arguments:
                node.cut()
            self.open[result] = [node, len(node.now) if "O_APPEND" in arguments else 0]
            return True
        if call in ("mkdir", "mkdirat"):
            folder, name = self.place(paths[0])
            if not folder:
                return False
            folder.change([(name, Folder())])
        elif call in ("rename", "renameat", "renameat2"):
            (a, old), (b, new) = map(self.place, paths)
            if not a or not b:
                return False
            if a is not b:
                raise SystemExit("a rename across folders: %s" % paths)
            other = b.now.get(new) if "RENAME_EXCHANGE" in arguments else None
            a.change([(old, other), (new, a.now[old])])
        elif call in ("unlink", "unlinkat", "rmdir"):
            node = self.descriptor(arguments)
            folder, name = (node[0], paths[0]) if node and call == "unlinkat" else self.place(paths[0])
            if not folder:
                return False
            folder.change([(name, None)])
        else:
            opened = self.descriptor(arguments)
            if not opened:
                return False
            if call == "write":
                opened[0].write(opened[1], strings[0])
                opened[1] += len(strings[0])
            elif call in ("fsync", "fdatasync"):
                if not self.ignore_sync:
                    opened[0].sync()
            elif call == "close":
                del self.open[int(arguments)]
            else:
                raise SystemExit("unknown call " + call)
        return True

    def descriptor(self, arguments):
        number = re.match(r"\d+", arguments)
        return self.open.get(int(number[0])) if number else None


def record(place, run, *more):
    """The calls of one training process, in order."""
    log = place.path("calls.log")
    place.train(run, *more, prefix=["strace", "-f", "-qq", "-o", log, "-s", "100000000", "-xx", "-e", "signal=none", "-e",
                                    "trace=" + CALLS], window_log=False)
    calls, unfinished, threads = [], {}, set()
    marker = "".join("\\x%02x" % byte for byte in place.path(run).encode())
    with open(log, errors="replace") as file:
        for line in file:
            pid = line.split(None, 1)[0]
            if line.rstrip().endswith("<unfinished ...>"):
                unfinished[pid] = line.rsplit(" <unfinished", 1)[0]
                continue
            resumed = re.match(r"\d+\s+<\.\.\. \w+ resumed>(.*)", line)
            if resumed:
                line = unfinished.pop(pid) + resumed[1]
            match = CALL.match(line)
            if not match:
                continue
            if marker in line:
                threads.add(match[1])
            if int(match[4]) >= 0:
                calls.append((match[1], match[2], match[3], int(match[4])))
    os.remove(log)
    return [call[1:] for call in calls if call[0] in threads]


def files_of(tree, prefix=""):
    for name, node in tree.items():
        if isinstance(node, dict):
            yield from files_of(node, prefix + name + "/")
        else:
            yield prefix + name, node


def put(tree, path):
    os.mkdir(path)
    for name, node in tree.items():
        if isinstance(node, dict):
            put(node, os.path.join(path, name))
        else:
            with open(os.path.join(path, name), "wb") as file:
                file.write(node)


def read_tree(path):
    return load_folder(path).after_loss(random.Random(0))


def judge(state, before, after):
    """What is wrong with a state: checkpoints and final/ are those of before or after, metrics reach the newest."""
    faults = []
    old, new = before.get("checkpoints", {}), after.get("checkpoints", {})
    steps = [name for name in state.get("checkpoints", {}) if name.startswith("step-")]
    for name in steps:
        if state["checkpoints"][name] not in (old.get(name), new.get(name), MADE.get(name)):
            faults.append(name + " is a mix")
    if not steps:
        faults.append("no checkpoint is left")
    if "final" in before and state.get("final") not in (before["final"], after["final"]):
        faults.append("final/ is a mix")
    newest = max([int(name[5:]) for name in steps], default=0)
    logged = set()
    for line in state.get("metrics.jsonl", b"").split(b"\n")[:-1]:
        try:
            logged.add(json.loads(line)["progress/step"])
        except (ValueError, KeyError):
            pass
    if not logged >= set(range(1, newest + 1)):
        faults.append("metrics end before step %d" % newest)
    return faults


def final_model(run):
    return {name: value for name, value in content(run).items() if name.startswith("final/model")}


MADE = {}  # every checkpoint that a recorded run made, also those that were pruned later


class Scenario:
    def __init__(self, place, name, first, then):
        self.place, self.name = place, name
        place.train(name, *first, window_log=False)
        self.before_path = place.path(name + "-before")
        shutil.copytree(place.path(name), self.before_path)
        self.calls = record(place, name, *then)
        self.before, self.after = read_tree(self.before_path), read_tree(place.path(name))
        self.then = then

    def remember_made(self):
        disk = Disk(self.place.path(self.name), self.before_path, False)
        for call in self.calls:
            disk.play(*call)
            folder = disk.root.now.get("checkpoints")
            for name, node in folder.now.items():
                if name.startswith("step-") and name not in MADE:
                    MADE[name] = {file: bytes(inner.now) for file, inner in node.now.items()}
        if read_tree(self.place.path(self.name))["checkpoints"].keys() != folder.now.keys():
            raise SystemExit("the replay gives other checkpoints than the run")

    def states(self, count, source, ignore_sync):
        """After random calls: states of the folder that a loss of power may leave."""
        points = sorted(source.randrange(len(self.calls) + 1) for _ in range(count))
        disk = Disk(self.place.path(self.name), self.before_path, ignore_sync)
        played = 0
        for point in points:
            while played < point:
                disk.play(*self.calls[played])
                played += 1
            yield disk.root.after_loss(source)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("satformer")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--resumes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", action="store_true", help="with checkpoints that are written past the page cache")
    options = parser.parse_args()
    if not can_trace():
        print("losses of power: skipped, strace is not here or may not trace")
        return 0
    source = random.Random(options.seed)
    failures = mutants = resumed = verified = 0
    with Workplace(options.satformer, options.large) as place:
        place.train("whole", window_log=False)
        expected = final_model(place.path("whole"))
        keep = ["--checkpointing.keep_last=1", "--checkpointing.checkpoint_interval=3"]
        longer = ["--training.max_tokens=%g" % (1.25 * STEPS * 192 / 1e9)]
        scenarios = [Scenario(place, "pruned", ["--max-steps", "4"], keep + ["--max-steps", "12"]),
                     Scenario(place, "background", ["--max-steps", "4"], keep + ["--max-steps", "12", "--checkpointing.async=true"]),
                     Scenario(place, "extended", [], longer)]
        for scenario in scenarios:
            MADE.clear()
            scenario.remember_made()
            count = options.count // len(scenarios) + (scenario is scenarios[0]) * (options.count % len(scenarios))
            paths, step = [], max(1, 2 * count // max(1, options.resumes))
            for number, state in enumerate(scenario.states(count, source, False)):
                faults = judge(state, scenario.before, scenario.after)
                path = place.path("state%d" % number)
                put(state, path)
                paths.append(path)
                if scenario is not scenarios[2] and resumed < options.resumes and number % step == 0:
                    resumed += 1
                    shutil.copytree(path, place.path("goes-on"))
                    place.train("goes-on", window_log=False)
                    if differences(expected, final_model(place.path("goes-on"))):
                        faults.append("training ends elsewhere")
                    shutil.rmtree(place.path("goes-on"))
                if len(paths) == 100 or number == count - 1:
                    found = place.verify(paths)
                    verified += len(found)
                    faults += ["%s is %s" % item for item in found.items() if item[1] != "whole"]
                    for done in paths:
                        shutil.rmtree(done)
                    paths = []
                if faults:
                    failures += 1
                    print("  %s, state %d: %s" % (scenario.name, number, "; ".join(faults)))
            mutants += sum(bool(judge(state, scenario.before, scenario.after)) for state in scenario.states(count, source, True))
        print("losses of power: %d states in %d recorded calls, %d checkpoints verified, %d runs gone on with, %d faults "
              "(without the program's syncs: %d)" % (options.count, sum(len(s.calls) for s in scenarios), verified, resumed,
                                                    failures, mutants), flush=True)
    return 1 if failures or (options.count >= 50 and mutants == 0) else 0


if __name__ == "__main__":
    sys.exit(main())
