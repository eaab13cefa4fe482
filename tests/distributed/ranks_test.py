#!/usr/bin/env python3
"""Several ranks through the real binary: equal losses for any split, ZeRO-1, resuming, kills, stops, signals.

Usage: ranks_test.py SATFORMER [unittest arguments]
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from launch import RankCase, clean_environment, free_port, mpirun

ROUNDS = int(os.environ.get("RANK_FAULT_ROUNDS", "1"))  # of kills and stops, for longer runs by hand
# ranks, micro-batch, accumulation: of twelve windows a step.
SPLITS = [(1, 4, 3), (2, 6, 2), (1, 1, 12), (3, 4, 3), (2, 3, 4), (4, 3, 4), (2, 1, 12), (3, 2, 6), (1, 12, 1)]


class Equality(RankCase):
    def test_nine_splits_switched_mid_run(self):
        steps = 2 * len(SPLITS)
        log = os.path.join(self.folder, "%s.log")
        self.train(1, "--config", self.config("whole", steps, 12, 1), "--window-log", log % "whole")
        for i, (ranks, batch, accumulation) in enumerate(SPLITS):
            config = self.config("split", steps, batch, accumulation, zero=i % 2)
            out = self.train(ranks, "--config", config, "--resume", "auto", "--max-steps", str(2 * i + 2),
                             "--window-log", log % "split")
            if ranks > 1:
                self.assertIn("%d ranks through sockets" % ranks, out)
        self.assert_same_losses("whole", "split")
        self.assertEqual(len(self.losses("split")), steps)
        self.assertEqual(self.read("whole.log"), self.read("split.log"))
        self.assertEqual(len(self.read("split.log").splitlines()), steps * 12)

    def test_other_windows_per_step_are_refused(self):
        self.train(2, "--config", self.config("run", 8), "--max-steps", "2")
        for rank, (code, text) in enumerate(self.finish(self.start(
                2, "--config", self.config("run", 8, 4, 2), "--resume", "auto"))):
            self.assertEqual(code, 3, text)
            self.assertIn("4 x 2 = 8 windows a step, the checkpoint has 4 x 3 = 12", text)
            self.assertIn("rank %d: " % rank, text)

    def test_rewinding_is_for_one_process(self):
        for code, text in self.finish(self.start(2, "--config", self.config("run", 8), "--on-spike", "rewind")):
            self.assertEqual(code, 3, text)
            self.assertIn("rewind is for one process", text)

    def test_uneven_shares_and_too_many_ranks(self):
        # Twelve windows among five ranks: two or three each.
        self.train(1, "--config", self.config("one", 4))
        self.train(5, "--config", self.config("five", 4))
        self.assert_same_losses("one", "five")
        for code, text in self.finish(self.start(2, "--config", self.config("few", 4, 1, 1))):
            self.assertEqual(code, 3, text)
            self.assertIn("too few for 2 ranks", text)

    def test_zero_gives_the_bytes_of_an_unsharded_run(self):
        for size in (2, 3):
            plain, sharded = "plain%d" % size, "sharded%d" % size
            self.train(size, "--config", self.config(plain, 8))
            self.train(size, "--config", self.config(sharded, 8, zero=1))
            for step in (4, 8):
                for file in ("model.safetensors", "optimizer.safetensors"):
                    name = ("checkpoints", "step-%08d" % step, file)
                    self.assertEqual(self.read(plain, *name), self.read(sharded, *name), name)
            self.assertEqual(self.losses(plain), self.losses(sharded))
        # Its checkpoint goes on with any number of ranks, sharded or not, to the same end.
        for size, zero in ((1, 0), (3, 1), (2, 0)):
            run = "again%d" % size
            self.train(size, "--config", self.config(run, 8, zero=zero), "--resume",
                       os.path.join(self.run_dir("sharded2"), "checkpoints", "step-00000004"))
            for step, loss in self.losses(run).items():
                self.assertAlmostEqual(loss, self.losses("plain2")[step], delta=1e-5)
            if size == 2:
                last = ("checkpoints", "step-00000008", "optimizer.safetensors")
                self.assertEqual(self.read(run, *last), self.read("plain2", *last))

    def test_evaluation_is_shared(self):
        self.train(1, "--config", self.config("run", 2))
        arguments = ["--model", self.run_dir("run"), "--data-dir", self.data, "--prefix", "train", "--batch-size", "5"]
        results = []
        for size in (1, 2, 3):
            output = os.path.join(self.folder, "eval%d.json" % size)
            port = free_port()
            processes = [self.start_rank(rank, size, port, [*arguments, "--output", output], command="eval")
                         for rank in range(size)]
            for rank, (code, text) in enumerate(self.finish(processes)):
                self.assertEqual(code, 0, text)
                self.assertEqual("perplexity" in text, rank == 0)
            with open(output) as file:
                results.append(json.load(file))
        for result in results[1:]:
            self.assertEqual(result["windows"], results[0]["windows"])
            self.assertAlmostEqual(result["loss"], results[0]["loss"], delta=1e-6)

    def test_generated_examples_are_written_once(self):
        def prepare(folder, size, code=0):
            port = free_port()
            processes = [self.start_rank(rank, size, port, ["--synthetic", "mqar", "--vocab-size", "64", "--seq-length", "32",
                                                            "--pairs", "4", "--examples", "200", "--timeout", "30",
                                                            "-o", os.path.join(self.folder, folder)], command="prepare")
                         for rank in range(size)]
            outputs = self.finish(processes)
            self.assertEqual([status for status, _ in outputs], [code] * size, outputs)
            return [text for _, text in outputs]

        prepare("one", 1)
        said = prepare("two", 2)
        self.assertIn("examples", said[0])
        self.assertEqual(said[1], "")
        for name in sorted(os.listdir(os.path.join(self.folder, "one"))):
            with open(os.path.join(self.folder, "one", name), "rb") as a, open(os.path.join(self.folder, "two", name), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        self.assertIn("rank 0", prepare("two", 2, code=4)[1])  # they are there already

    def test_other_types(self):
        for dtype, tolerance in (("bfloat16", 2e-3), ("pure-bfloat16", 2e-2)):
            one, two = dtype + "1", dtype + "2"
            self.train(1, "--config", self.config(one, 4, dtype=dtype))
            self.train(2, "--config", self.config(two, 4, dtype=dtype, zero=1, gradient_checkpointing=True))
            self.assert_same_losses(one, two, tolerance)


class Failures(RankCase):
    """A run of two ranks, one of which comes to grief in the middle."""

    def start_run(self, run="run", *arguments, steps=100000, **training):
        return self.start(2, "--config", self.config(run, steps, **training), "--resume", "auto", *arguments)

    def wait_for_step(self, step, processes, run="run"):
        deadline = time.time() + 60
        while max(self.losses(run), default=0) < step:
            self.assertLess(time.time(), deadline)
            for process in processes:
                self.assertIsNone(process.poll(), process.communicate() if process.poll() is not None else "")
            time.sleep(0.02)

    def assert_resumes(self, run="run"):
        last = max(self.losses(run))
        step = last // 4 * 4 + 4
        self.train(2, "--config", self.config(run, 100000), "--resume", "auto", "--max-steps", str(step + 2))
        self.assertEqual(sorted(self.losses(run)), list(range(1, step + 3)))

    def test_a_killed_rank_is_named_and_the_run_resumes(self):
        for killed in (1, 0) * ROUNDS:
            processes = self.start_run()
            self.wait_for_step(max(self.losses("run"), default=0) + 6, processes)
            processes[killed].kill()
            start = time.time()
            results = self.finish(processes)
            self.assertLess(time.time() - start, 10)
            code, text = results[1 - killed]
            self.assertEqual(code, 6, text)
            self.assertIn("rank %d: rank %d was lost" % (1 - killed, killed), text)
            self.assert_resumes()

    def test_a_stopped_rank_is_named_within_the_timeout(self):
        for stopped in (1, 0) * ROUNDS:
            processes = self.start_run("run", "--timeout", "4")
            self.wait_for_step(max(self.losses("run"), default=0) + 3, processes)
            processes[stopped].send_signal(signal.SIGSTOP)
            start = time.time()
            out, err = processes[1 - stopped].communicate(timeout=60)
            self.assertLess(time.time() - start, 12)
            self.assertEqual(processes[1 - stopped].returncode, 6, out + err)
            self.assertIn("rank %d has given no sign of life for 4 s" % stopped, out + err)
            # Once it goes on, it notices too.
            processes[stopped].send_signal(signal.SIGCONT)
            out, err = processes[stopped].communicate(timeout=60)
            self.assertNotEqual(processes[stopped].returncode, 0)
        self.assert_resumes()

    def test_a_rank_whose_data_is_cut_is_named_and_the_run_resumes(self):
        other = os.path.join(self.folder, "other")
        for cut in (1, 0) * ROUNDS:
            shutil.rmtree(other, ignore_errors=True)
            shutil.copytree(self.data, other)
            port = free_port()
            arguments = ["--config", self.config("run", 100000), "--resume", "auto"]
            folders = [self.data, self.data]
            folders[cut] = other
            processes = [self.start_rank(rank, 2, port, arguments + ["--data.data_dir=" + folders[rank]])
                         for rank in range(2)]
            self.wait_for_step(max(self.losses("run"), default=0) + 3, processes)
            for name in os.listdir(other):
                os.truncate(os.path.join(other, name), 0)
            start = time.time()
            results = self.finish(processes)
            self.assertLess(time.time() - start, 30)
            self.assertEqual([code for code, _ in results], [6, 6], results)
            self.assertRegex(results[cut][1], "cannot read '.*other/.*': it became shorter")
            self.assertIn("rank %d: rank %d was lost" % (1 - cut, cut), results[1 - cut][1])
            self.assert_resumes()

    def test_an_error_of_one_rank_ends_the_other_with_its_words(self):
        """Rank 1 gets no more memory, rank 0 no more room for its files."""
        for failing, limit, code, words in ((1, resource.RLIMIT_AS, 8, "memory"),
                                            (0, resource.RLIMIT_FSIZE, 6, "File too large")) * ROUNDS:
            port = free_port()
            arguments = ["--config", self.config("run", 100000), "--resume", "auto"]
            # Every allocation asks the system.
            settings = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4096:glibc.malloc.trim_threshold=0"}
            processes = [self.start_rank(rank, 2, port, arguments, **settings) for rank in range(2)]
            self.wait_for_step(max(self.losses("run"), default=0) + 3, processes)
            resource.prlimit(processes[failing].pid, limit, (1, 1))
            start = time.time()
            results = self.finish(processes)
            self.assertLess(time.time() - start, 30)
            self.assertEqual([status for status, _ in results], [code, code], results)
            self.assertIn(words, results[failing][1])
            self.assertRegex(results[1 - failing][1], "rank %d: rank %d failed: .*%s" % (1 - failing, failing, words))
            self.assert_resumes()

    def test_a_signal_to_any_rank_saves_once_and_ends_all(self):
        for number, targets, code in ROUNDS * ((signal.SIGTERM, (1,), 143), (signal.SIGINT, (0, 1), 130),
                                      (signal.SIGTERM, (0, 1), 143)):
            before = max(self.losses("run"), default=0)
            processes = self.start_run()
            self.wait_for_step(before + 3, processes)
            for rank in targets:
                processes[rank].send_signal(number)
            results = self.finish(processes)
            self.assertEqual([status for status, _ in results], [code, code], results)
            self.assertIn("stopped after step", results[0][1])
            self.assertNotIn("stopped after step", results[1][1])
            last = max(self.losses("run"))
            self.assertTrue(os.path.isdir(os.path.join(self.run_dir("run"), "checkpoints", "step-%08d" % last)))

    def test_differing_ranks_are_named_at_the_start(self):
        port = free_port()
        arguments = ["--config", self.config("run", 8), "--timeout", "30"]
        processes = [self.start_rank(0, 2, port, arguments),
                     self.start_rank(1, 2, port, arguments + ["--training.learning_rate=0.01"])]
        for code, text in self.finish(processes):
            self.assertEqual(code, 3, text)
            self.assertIn("training.learning_rate is 0.01 here and 0.003 on rank 0", text)
        self.assertFalse(os.path.exists(os.path.join(self.run_dir("run"), "metrics.jsonl")))
        # Other data on one rank.
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        for name in os.listdir(self.data):
            content = bytearray(self.read("data", name))
            content[100] ^= 1
            with open(os.path.join(other, name), "wb") as out:
                out.write(content)
        port = free_port()
        processes = [self.start_rank(0, 2, port, arguments),
                     self.start_rank(1, 2, port, arguments + ["--data.data_dir=" + other])]
        for code, text in self.finish(processes):
            self.assertEqual(code, 4, text)
            self.assertIn("the SHA-256 of the training shards is", text)

    def test_a_rank_without_data_is_named_and_leaves_an_error_file(self):
        port = free_port()
        arguments = ["--config", self.config("run", 8), "--timeout", "30"]
        files = [os.path.join(self.folder, "error%d.json" % rank) for rank in range(2)]
        processes = [self.start_rank(0, 2, port, arguments, TORCHELASTIC_ERROR_FILE=files[0]),
                     self.start_rank(1, 2, port, arguments + ["--data.data_dir=" + self.folder],
                                     TORCHELASTIC_ERROR_FILE=files[1])]
        for rank, (code, text) in enumerate(self.finish(processes)):
            self.assertEqual(code, 4, text)
            self.assertIn("rank 0: rank 1 failed: " if rank == 0 else "rank 1: ", text)
        for file in files:
            with open(file) as content:
                message = json.load(content)["message"]
            self.assertIn("rank", message["message"])
            self.assertTrue(message["extraInfo"]["timestamp"].isdigit())

    def test_a_rank_that_never_comes_is_named(self):
        start = time.time()
        process = self.start_rank(0, 3, free_port(), ["--config", self.config("run", 8), "--timeout", "2"])
        (code, text), = self.finish([process])
        self.assertEqual(code, 6, text)
        self.assertIn("ranks 1, 2 of 3 did not arrive in time", text)
        self.assertLess(time.time() - start, 20)


def torchrun():
    """torchrun of the Python of SATFORMER_TEST_PYTHON, or of the path."""
    beside = os.path.join(os.path.dirname(os.environ.get("SATFORMER_TEST_PYTHON", "")), "torchrun")
    return beside if os.path.isfile(beside) else shutil.which("torchrun")


@unittest.skipUnless(torchrun(), "torchrun is not installed")
class Torchrun(RankCase):
    def agent(self, *arguments, restarts=0):
        command = [torchrun(), "--no-python", "--nproc-per-node", "2", "--master-port", str(free_port()), "--max-restarts",
                   str(restarts), self.program, "train", "--resume", "auto", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                                   errors="replace", env=clean_environment())
        self.addCleanup(self.end, process)
        return process

    def test_a_killed_rank_is_started_again_and_no_step_is_lost(self):
        agent = self.agent("--config", self.config("run", 100000), "--max-steps", "300", restarts=2)
        deadline = time.time() + 120
        while max(self.losses("run"), default=0) < 20:
            self.assertIsNone(agent.poll())
            self.assertLess(time.time(), deadline)
            time.sleep(0.05)
        ranks = subprocess.run(["pgrep", "-P", str(agent.pid)], stdout=subprocess.PIPE, encoding="utf-8").stdout.split()
        self.assertEqual(len(ranks), 2)
        os.kill(int(ranks[1]), signal.SIGKILL)
        (code, text), = self.finish([agent])
        self.assertEqual(code, 0, text)
        self.assertEqual(sorted(self.losses("run")), list(range(1, 301)))

    def test_shows_what_failed(self):
        (code, text), = self.finish([self.agent("--config", self.config("run", 8), "--data.data_dir=/nonexistent")])
        self.assertNotEqual(code, 0)
        self.assertIn("the shard folder '/nonexistent' is not there", text)


@unittest.skipUnless(mpirun(), "mpirun is not installed")
class Mpi(RankCase):
    def mpi(self, size, *arguments):
        command = [mpirun(), "--allow-run-as-root", "--oversubscribe", "-n", str(size), self.program, "train",
                   "--timeout", "30", "--peak-tflops", "0.1", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                                   errors="replace", env=clean_environment())
        self.addCleanup(self.end, process)
        return process

    def test_equals_one_process_and_goes_on_over_sockets(self):
        self.train(1, "--config", self.config("one", 8))
        (code, text), = self.finish([self.mpi(2, "--config", self.config("mpi", 8, zero=1), "--max-steps", "4")])
        if "has no MPI" in text:
            self.skipTest("built without MPI")
        self.assertEqual(code, 0, text)
        self.assertIn("2 ranks through MPI", text)
        self.train(3, "--config", self.config("mpi", 8), "--resume", "auto")
        self.assert_same_losses("one", "mpi")

    def test_a_killed_rank_ends_the_run(self):
        process = self.mpi(2, "--config", self.config("mpi", 100000))
        deadline = time.time() + 60
        while max(self.losses("mpi"), default=0) < 5:
            if process.poll() is not None:
                out, err = process.communicate()
                if "has no MPI" in err:
                    self.skipTest("built without MPI")
                self.fail(out + err)
            self.assertLess(time.time(), deadline)
            time.sleep(0.05)
        ranks = self.ranks_of(process.pid)
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[1], signal.SIGKILL)
        start = time.time()
        (code, text), = self.finish([process])
        self.assertNotEqual(code, 0)
        self.assertLess(time.time() - start, 20)
        self.assertRegex(text, "rank 1 (was lost|with PID)")

    def ranks_of(self, starter):
        """Process ids of the ranks below mpirun, by rank."""
        found = {}
        for entry in os.listdir("/proc"):
            try:
                with open("/proc/%s/stat" % entry) as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
                with open("/proc/%s/environ" % entry, "rb") as file:
                    variables = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if b"=" in item)
            except (OSError, ValueError, IndexError):
                continue
            if parent == starter and b"OMPI_COMM_WORLD_RANK" in variables:
                found[int(variables[b"OMPI_COMM_WORLD_RANK"])] = int(entry)
        return [found[rank] for rank in sorted(found)]


if __name__ == "__main__":
    RankCase.program = sys.argv.pop(1)
    unittest.main()
