#!/usr/bin/env python3
"""--max-time, Slurm's announcing signals, and spikes that the data cause: each run must go on to the same end.

Usage: guards_test.py SATFORMER
"""

import json
import os
import signal
import subprocess
import sys
import time

from tiny_run import Workplace, content, differences

LONG = ["--training.max_tokens=1", "--checkpointing.checkpoint_interval=0", "--logging.eval_interval=0",
        "--logging.log_interval=1"]


def wait_for_lines(path, count):
    deadline = time.time() + 120
    while time.time() < deadline:
        try:
            with open(path) as file:
                if len(file.readlines()) >= count:
                    return
        except FileNotFoundError:
            pass
        time.sleep(0.005)
    raise SystemExit("training did not get under way")


def expect(name, truth, detail=""):
    print("%s: %s%s" % (name, "holds" if truth else "FAILS", "" if truth else " (%s)" % (detail,)), flush=True)
    return 0 if truth else 1


def max_time(place):
    # On a quiet machine it is out before the 4 s are over; a busy one may let any process wait for some seconds.
    start = time.time()
    done = place.train("timed", *LONG, "--max-time", "4", code=None)
    spent = time.time() - start
    saved = os.listdir(place.path("timed", "checkpoints"))
    return expect("--max-time 4 saves and exits with 75 in time (%.1f s)" % spent,
                  done.returncode == 75 and spent < 12 and len(saved) == 1 and "time is up" in done.stderr,
                  (done.returncode, saved, done.stderr[-200:]))


def announced(place):
    failed = 0
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        run = "signal%d" % number
        process = subprocess.Popen(place.command(run, *LONG), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_for_lines(place.path(run, "metrics.jsonl"), 3)
        process.send_signal(number)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        saved = os.listdir(place.path(run, "checkpoints"))
        failed += expect("signal %s saves and exits with 75" % number.name, process.returncode == 75 and len(saved) == 1,
                         (process.returncode, saved, err))
    return failed


def stopped_early(place):
    """A run that was ended by --max-time again and again ends as one that was not."""
    more = ["--training.max_tokens=%g" % (240 * 192 / 1e9), "--checkpointing.checkpoint_interval=100"]
    start = time.time()
    place.train("whole", *more)
    length = 1 + max(0.8, 0.45 * (time.time() - start))  # a second is kept for saving
    starts = 0
    code = 75
    while code == 75 and starts < 30:
        starts += 1
        code = place.train("pieces", *more, "--max-time", "%.2f" % length, code=None).returncode
    found = differences(content(place.path("whole")), content(place.path("pieces")))
    found = [name for name in found if name.startswith("final") or name == "metrics.jsonl"]
    return expect("a run in pieces of --max-time (%d starts) ends as an unbroken one" % starts, code == 0 and not found, (code, found))


def spikes(place):
    """Windows of one token repeated, after the rest is learnt, raise the loss for a step."""
    path = os.path.join(place.data, "train_00001.bin")
    with open(path, "r+b") as file:
        file.seek(2 * 100)
        file.write(bytes([9, 0] * 160))
    more = ["--training.spike.window=4", "--training.spike.threshold=3", "--training.spike.limit=50", "--on-spike"]
    failed = 0
    for action in ("skip", "rewind"):
        done = place.train(action, *more, action)
        with open(place.path(action, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        with open(place.path(action, "sessions.json")) as file:
            rewound = [s["rewound"] for s in json.load(file) if "rewound" in s]
        acted = [line for line in lines if "guard/skipped" in line] or rewound
        bounds = [line for line in lines if "guard/loss_bound" in line]
        steps = [line["progress/step"] for line in lines]
        once = steps == sorted(set(steps))
        failed += expect("--on-spike %s: acted %d times, bounds in %d lines, no step twice, said so"
                         % (action, len(acted), len(bounds)), acted and bounds and once and "spike" in done.stderr, done.stderr[-300:])
        # Stopped in the middle and gone on with, it decides as before.
        place.train(action + "-cut", *more, action, "--max-steps", "13")
        place.train(action + "-cut", *more, action)
        same = [place.path(run, "final", "model.safetensors") for run in (action, action + "-cut")]
        contents = [open(name, "rb").read() for name in same]
        failed += expect("--on-spike %s: a resumed run decides the same" % action, contents[0] == contents[1])
    return failed


def main():
    with Workplace(sys.argv[1]) as place:
        return 1 if max_time(place) + announced(place) + stopped_early(place) + spikes(place) else 0


if __name__ == "__main__":
    sys.exit(main())
