#!/usr/bin/env python3
"""Logs of many workers do not flood: one worker says what all would say alike. Each of a few tells of a loss itself."""
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from cluster import LOCKSTEP, children_of, task_index_of, train_command

MANY, FEW = 10, 4 # the limit between them is LS_LOG_FEW
ENDLESS = {"epochs": 1000000, "steps": 20}  # who disturbs a training stops it afterwards
PATIENCE = 90


class Run:
    """lockstep run of so many workers. self.lines has what they write, "[3] lockstep: worker:3: ...", as it comes. No
    worker is lost for its silence: on a busy machine many may be silent for long."""

    def __init__(self, test, workers, *options, epochs=1, steps=2, prefix=(), environment=None):
        command = [LOCKSTEP, "run", "-np", str(workers), *options, "--", *prefix, *train_command(
            "--verbose", "2", "--no-validation", "--epochs", str(epochs), "--batch-size", str(workers), "--steps-per-epoch",
            str(steps))]
        self.lines, self.workers = [], workers
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env={**os.environ, "LOCKSTEP_HEARTBEAT_LIMIT": "30",
                                                                  **(environment or {})})
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        test.addCleanup(self.stop)
        self.reader.start()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def saying(self, pattern, since=0):
        """The ranks of the lines that match, but for the first so many."""
        found = (re.match(r"\[(\d+)\] lockstep: .*(?:%s)" % pattern, line) for line in list(self.lines)[since:])
        return [int(match.group(1)) for match in found if match]

    def await_lines(self, pattern, ranks=(0,), times=1):
        """Until each of the ranks has said it so often."""
        deadline = time.monotonic() + PATIENCE
        while min(self.saying(pattern).count(rank) for rank in ranks) < times:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError("not %d lines of each of %s matched /%s/ in: %s" % (times, ranks, pattern, self.describe()))
            time.sleep(0.02)

    def worker(self, index):
        """Its process: a child of the launcher, or below one."""
        found = list(children_of(self.process.pid))
        for pid in found:
            if task_index_of(pid) == index:
                return pid
            found += children_of(pid)
        raise AssertionError("there is no process of worker:%d" % index)

    def finish(self, wanted=0):
        status = self.process.wait(PATIENCE)
        self.reader.join(10)
        if status != wanted:
            raise AssertionError("exit status %d: %s" % (status, self.describe()))

    def await_epochs(self, more):
        """Until so many more have begun, whoever says so."""
        begun = lambda: sum("Epoch " in line for line in list(self.lines))
        wanted, deadline = begun() + more, time.monotonic() + PATIENCE
        while begun() < wanted:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError("it does not train: %s" % self.describe())
            time.sleep(0.02)

    def go_on_and_stop(self):
        """All train another epoch together, and end when they are asked to."""
        self.await_epochs(2)
        self.process.terminate()
        self.finish(143)

    def describe(self):
        return "".join(self.lines)


class Logs(unittest.TestCase):
    def test_start(self):
        """Nothing that the library says at the start of many comes from another worker than the first."""
        run = Run(self, MANY)
        run.finish()
        self.assertEqual(set(run.saying("")), {0}, run.describe())
        self.assertLess(len(run.lines), MANY, run.describe())
        for line in ("workers exchange gradients through", "%d replicas in sync on" % MANY, "data: digits"):
            self.assertEqual(run.saying(line), [0], run.describe())

    def test_debug(self):
        """The other workers say it too, for who wants to know."""
        run = Run(self, MANY, environment={"LOCKSTEP_LOG": "debug"})
        run.finish()
        for line in ("workers exchange gradients through", "this worker is rank", "data: digits"):
            self.assertEqual(sorted(run.saying(line)), list(range(MANY)), run.describe())

    def come_late(self, late, speaker):
        """The ranks that tell of the wait for a worker that comes when the speaker has told of it some times."""
        with tempfile.TemporaryDirectory() as folder:
            script = 'case "$TF_CONFIG" in *\'"index":%d}\'*) until [ -e %s/come ]; do sleep 0.1; done;; esac; ' % (late, folder)
            run = Run(self, MANY, prefix=["sh", "-c", script + 'exec "$0" "$@"'], environment={"LOCKSTEP_REPORT_INTERVAL": "0.5"})
            began, pattern = time.monotonic(), r"waiting for 1 of %d workers since .*worker:%d " % (MANY, late)
            run.await_lines(pattern, [speaker], 4)
            os.mkdir(folder + "/come")
            run.finish()
            return set(run.saying(pattern)), (time.monotonic() - began) / 0.5, run

    def test_late_one_of_many(self):
        waiting, _, run = self.come_late(5, 0)
        self.assertEqual(waiting, {0}, run.describe())

    def test_late_first_of_many(self):
        """Nobody leads yet. The lowest worker that is up speaks."""
        waiting, intervals, run = self.come_late(0, 1)
        self.assertLessEqual({1}, waiting, run.describe())
        self.assertLess(len(run.saying("waiting for")), MANY + intervals, run.describe())

    def lose(self, workers, lost):
        run = Run(self, workers, "--restart", "1", **ENDLESS)
        run.await_epochs(2)
        os.kill(run.worker(lost), signal.SIGKILL)
        left = sorted(set(range(workers)) - {lost})
        run.await_lines("recovered: all", left if workers == FEW else left[:1])
        run.go_on_and_stop()
        taken = re.findall(r"\[(\d+)\] .* took the state of the training over from rank (\d+)", run.describe())
        takers, sources = ([int(pair[place]) for pair in taken] for place in (0, 1))
        self.assertEqual((takers.count(lost), len(set(sources))), (1, 1), run.describe())
        self.assertFalse(set(takers) & set(sources), run.describe())  # who was a step behind takes it, too
        return left, sorted(run.saying("lost.*waiting up to")), sorted(run.saying("recovered: all")), run.describe()

    def test_loss_of_one_of_many(self):
        _, lost, recovered, said = self.lose(MANY, 5)
        self.assertEqual((lost, recovered), ([0], [0]), said)

    def test_loss_of_the_first_of_many(self):
        """The next one speaks for those who are left: the first one is new."""
        _, lost, recovered, said = self.lose(MANY, 0)
        self.assertEqual((lost, recovered), ([1], [1]), said)

    def test_loss_of_one_of_few(self):
        left, lost, recovered, said = self.lose(FEW, 2)
        self.assertEqual((lost, recovered), (left, left), said)

    def freeze(self, workers, frozen, speakers, algorithm="direct"):
        """Few by direct exchange, where each worker waits for each: in others some wait for who waits."""
        run = Run(self, workers, environment={"LOCKSTEP_REPORT_INTERVAL": "0.5", "LOCKSTEP_ALGORITHM": algorithm}, **ENDLESS)
        run.await_epochs(2)
        pid, pattern = run.worker(frozen), r"waiting for ranks? [\d, ]*\b%d\b.* in all_" % frozen  # and for who waits for it
        before = len(run.lines)  # a busy machine may have had its own waits
        os.kill(pid, signal.SIGSTOP)
        run.await_lines(pattern, speakers, 4)  # the others have waited for as long
        os.kill(pid, signal.SIGCONT)
        run.go_on_and_stop()
        said = algorithm + ": " + run.describe()
        self.assertEqual(sorted(set(run.saying(pattern, before)) - self.ahead(run, speakers, before)), speakers, said)

    def ahead(self, run, speakers, before):
        """The rank that had all its data when the other one froze. It waits in the next call, for the speakers too: who
        of them is frozen it cannot tell. Of those ranks one speaks."""
        awaited = r"waiting for ranks [\d, ]*\b%d\b.* in all_" % speakers[0]
        found = set(run.saying(awaited, before)) - set(speakers)
        self.assertLessEqual(len(found), 1, run.describe())
        return found

    def test_wait_for_one_of_many(self):
        self.freeze(MANY, 5, [0], random.choice(("auto", "direct")))

    def test_wait_for_the_first_of_many(self):
        self.freeze(MANY, 0, [1])

    def test_wait_for_one_of_few(self):
        self.freeze(FEW, 0, [1, 2, 3])


if __name__ == "__main__":
    unittest.main(verbosity=2)
