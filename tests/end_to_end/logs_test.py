#!/usr/bin/env python3
"""Logs of many workers do not flood: one worker says what all would say alike. Each of a few tells of a loss itself."""
import os
import random
import re
import signal
import subprocess
import threading
import time
import unittest

from cluster import LOCKSTEP, SANITIZED, children_of, task_index_of, train_command

MANY, FEW = 10, 4 # the limit between them is LS_LOG_FEW
PATIENCE = 240 if SANITIZED else 90


class Run:
    """lockstep run of so many workers. self.lines has what they write, "[3] lockstep: worker:3: ...", as it comes. No
    worker is lost for its silence: on a busy machine many may be silent for long."""

    def __init__(self, test, workers, *options, epochs=20, steps=100, prefix=(), environment=None):
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

    def saying(self, pattern):
        """The ranks of the lines that match."""
        found = (re.match(r"\[(\d+)\] lockstep: .*(?:%s)" % pattern, line) for line in list(self.lines))
        return [int(match.group(1)) for match in found if match]

    def await_line(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not any(re.search(pattern, line) for line in list(self.lines)):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError("no line matched /%s/ in: %s" % (pattern, self.describe()))
            time.sleep(0.02)

    def worker(self, index):
        """Its process: a child of the launcher, or below one."""
        found = list(children_of(self.process.pid))
        for pid in found:
            if task_index_of(pid) == index:
                return pid
            found += children_of(pid)
        raise AssertionError("there is no process of worker:%d" % index)

    def finish(self):
        status = self.process.wait(PATIENCE)
        self.reader.join(10)
        if status:
            raise AssertionError("exit status %d: %s" % (status, self.describe()))

    def describe(self):
        return "".join(self.lines)


class Logs(unittest.TestCase):
    def test_start(self):
        """Nothing that the library says at the start of many comes from another worker than the first."""
        run = Run(self, MANY, epochs=1, steps=2)
        run.finish()
        self.assertEqual(set(run.saying("")), {0}, run.describe())
        self.assertLess(len(run.lines), MANY, run.describe())
        for line in ("workers exchange gradients through", "%d replicas in sync on" % MANY, "data: digits"):
            self.assertEqual(run.saying(line), [0], run.describe())

    def test_debug(self):
        """The other workers say it too, for who wants to know."""
        run = Run(self, MANY, epochs=1, steps=2, environment={"LOCKSTEP_LOG": "debug"})
        run.finish()
        for line in ("workers exchange gradients through", "this worker is rank", "data: digits"):
            self.assertEqual(sorted(run.saying(line)), list(range(MANY)), run.describe())

    def come_late(self, late):
        """The ranks that tell of the wait for a worker that comes seconds after the others."""
        script = 'case "$TF_CONFIG" in *\'"index":%d}\'*) sleep %d;; esac; exec "$0" "$@"' % (late, 12 if SANITIZED else 4)
        run = Run(self, MANY, epochs=1, steps=2, prefix=["sh", "-c", script], environment={"LOCKSTEP_REPORT_INTERVAL": "0.5"})
        run.finish()
        return set(run.saying(r"waiting for 1 of %d workers since .*worker:%d " % (MANY, late))), run

    def test_late_one_of_many(self):
        waiting, run = self.come_late(5)
        self.assertEqual(waiting, {0}, run.describe())

    def test_late_first_of_many(self):
        """Nobody leads yet. The lowest worker that is up speaks."""
        waiting, run = self.come_late(0)
        self.assertLessEqual({1}, waiting, run.describe())
        self.assertLess(len(run.saying("waiting for")), 2 * MANY, run.describe())

    def lose(self, workers, lost):
        run = Run(self, workers, "--restart", "1", epochs=20 if workers == FEW else 8)
        run.await_line("Epoch 2/")
        os.kill(run.worker(lost), signal.SIGKILL)
        run.finish()
        self.assertEqual(run.saying("took the state of the training over"), [lost], run.describe())
        left = sorted(set(range(workers)) - {lost})
        return left, sorted(run.saying("was lost: .*waiting up to")), sorted(run.saying("recovered: all")), run.describe()

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

    def freeze(self, workers, frozen, algorithm="auto"):
        """Few by direct exchange, where each worker waits for each: in others some wait for who waits."""
        run = Run(self, workers, epochs=20 if workers == FEW else 8,
                  environment={"LOCKSTEP_REPORT_INTERVAL": "0.5", "LOCKSTEP_ALGORITHM": "direct" if workers == FEW else algorithm})
        run.await_line("Epoch 2/")
        pid = run.worker(frozen)
        os.kill(pid, signal.SIGSTOP)
        run.await_line(r"waiting for rank %d .*in all_reduce" % frozen)
        time.sleep(2)  # until all have waited for as long
        os.kill(pid, signal.SIGCONT)
        run.finish()
        return sorted(set(run.saying("waiting for rank %d .*in all_reduce" % frozen))), run.describe()

    def test_wait_for_one_of_many(self):
        algorithm = random.choice(("auto", "direct"))
        waiting, said = self.freeze(MANY, 5, algorithm)
        self.assertEqual(waiting, [0], algorithm + ": " + said)

    def test_wait_for_the_first_of_many(self):
        waiting, said = self.freeze(MANY, 0, "direct")
        self.assertEqual(waiting, [1], said)

    def test_wait_for_one_of_few(self):
        waiting, said = self.freeze(FEW, 0)
        self.assertEqual(waiting, [1, 2, 3], said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
