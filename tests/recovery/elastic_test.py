#!/usr/bin/env python3
"""Elastic generations: those who are left go on with all replicas, who comes back is taken in again, and all end with
the bits of the undisturbed training; who may not go on ends and says why."""
import functools
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

from job import LIMIT, SANITIZED, Job, Returner, Waker, undisturbed
from cluster import children_of, task_index_of

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
LOOP = os.environ.get("RECOVERY_LOOP", "build/tests/recovery/loop")
LONG = ("--epochs", "60" if SANITIZED else "250")  # until somebody has come back
IMPATIENT = {"LOCKSTEP_HEARTBEAT_LIMIT": "1", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.1", "LOCKSTEP_REJOIN_TIMEOUT": "0"}
reference = functools.lru_cache(undisturbed)
few = unittest.skipIf(SANITIZED, "a handful is enough where everything is slow")


class Elastic(unittest.TestCase):
    def run_job(self, at, elastic, workers=4, options=(), hooks=(), environment=None, **more):
        job = Job(workers, options, at=at, restart=False,
                  environment={**IMPATIENT, "LOCKSTEP_ELASTIC": elastic, **(environment or {})}, **more)
        self.addCleanup(job.folder.cleanup)
        return job.start_all().finish(hooks)

    def survive(self, at, gone=(), elastic="1:4", options=(), wanted=None, **more):
        with self.subTest(at=at):
            job = self.run_job(at, elastic, options=options, **more)
            self.assertEqual(job.faults(wanted or reference(len(job.lives), *options), gone), [], job.describe())
            return job

    def entered(self, job, rank):
        return len(job.lives[rank][-1].notes("entered"))


class Fewer(Elastic):
    def test_three_of_four(self):
        for rank in (0, 3) if SANITIZED else range(4):
            self.survive({rank: ["sums:5:KILL"]}, gone=(rank,), elastic="3:4")

    @few
    def test_in_an_evaluation_and_while_all_leave(self):
        for point in ("evaluate:1:KILL", "verify:2:KILL", "predict:2:KILL", "exit:1:KILL"):
            self.survive({3: [point]}, gone=(3,))

    @few
    def test_two_devices_each(self):
        """Five replicas of five devices on the three and a half that are left."""
        job = self.run_job({2: ["sums:5:KILL"]}, "1:3", workers=3, task_environment=lambda rank: {
            "LOCKSTEP_DEVICES": "1" if rank == 1 else "2"})
        self.assertEqual(job.faults(reference(5), (2,)), [], job.describe())

    @few
    def test_a_long_step_of_a_survivor(self):
        """It is heard, and so it is waited for, though it does not report: it is not left out."""
        job = self.survive({1: ["committed:4:KILL"], 2: ["committed:4:REST"]}, gone=(1,))
        self.assertEqual([self.entered(job, rank) for rank in (0, 2, 3)], [2, 2, 2], job.describe())

    def test_half_with_the_lowest(self):
        self.survive({1: ["sums:5:KILL"], 2: ["sums:5:KILL"]}, gone=(1, 2), elastic="2:4")

    @few
    def test_one_after_the_other(self):
        self.survive({0: ["sums:5:KILL"], 2: ["sums:8:KILL"], 3: ["commit:12:KILL"]}, gone=(0, 2, 3))

    @few
    def test_lost_in_the_recovery(self):
        for at in ({1: ["sums:5:KILL"], 2: ["form:2:KILL"]}, {1: ["sums:5:KILL"], 0: ["propose:2:KILL"]},
                   {0: ["sums:5:KILL"], 1: ["propose:1:KILL"]}, {1: ["commit:5:KILL"], 2: ["accepted:2:KILL"]},
                   {2: ["sums:5:KILL"], 0: ["begin:2:KILL"]}, {3: ["sums:5:KILL"], 1: ["entered:2:KILL"]}):
            self.survive(at, gone=tuple(at), elastic="1:5", workers=5)

    @few
    def test_transports(self):
        for transport in ("tcp", "grpc"):
            self.survive({0: ["sums:5:KILL"]}, gone=(0,), environment={"LOCKSTEP_TRANSPORT": transport})

    @few
    def test_with_a_checkpoint(self):
        """The task that writes it is lost; another one takes that over, and deletes it at the end."""
        with tempfile.TemporaryDirectory(prefix="lockstep-elastic-test-") as folder:
            self.survive({0: ["sums:5:KILL"]}, gone=(0,), wanted=reference(4),
                         options=("--checkpoint", folder, "--checkpoint-steps", "3"))
            self.assertEqual(os.listdir(folder), [])

    @few
    def test_before_the_checkpoint_is_read(self):
        """The task that would have read it is lost; the training goes on from there all the same."""
        with tempfile.TemporaryDirectory(prefix="lockstep-elastic-test-") as folder:
            long = ("--epochs", "24")  # at the second checkpoint the first one is whole, however slow the disk
            options = (*long, "--checkpoint", folder, "--checkpoint-steps", "3")
            self.run_job({0: ["checkpoint:2:KILL"], 1: ["form:2:KILL"], 2: ["form:2:KILL"]}, "1:3", workers=3,
                         options=options)
            job = self.survive({0: ["checkpoint_read:1:KILL"]}, gone=(0,), elastic="1:3", workers=3,
                               wanted=reference(3, *long), options=options)
            self.assertRegex(job.lives[1][0].errors(), r"training goes on after step [1-9]")

    @few
    def test_timelines(self):
        """Each task's own, with a track for each replica that it has held."""
        with tempfile.TemporaryDirectory(prefix="lockstep-elastic-test-") as folder:
            trace = os.path.join(folder, "trace.json")
            self.survive({0: ["sums:5:KILL"]}, gone=(0,), elastic="1:3", workers=3, wanted=reference(3),
                         environment={"LOCKSTEP_TRACE": trace})
            for rank, replicas in ((1, {0, 1}), (2, {2})):
                with open(os.path.join(folder, "trace.rank%d.json" % rank), encoding="utf-8") as file:
                    events = json.load(file)["traceEvents"]
                names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
                self.assertEqual(sorted(names), ["communicator", *("replica %d" % replica for replica in sorted(replicas))])

    @few
    def test_a_custom_loop(self):
        wanted = undisturbed(4, program=LOOP)
        for rank, point in ((0, "gradient:5:KILL"), (2, "reduced:9:KILL")):
            self.survive({rank: [point]}, gone=(rank,), wanted=wanted, program=LOOP)


    @few
    def test_under_the_launcher(self):
        """The task that shows the progress is lost; another one prints the outcome."""
        train = [LOCKSTEP, "train", "--dataset", "digits", "--limit", "2000", "--epochs", "30", "--batch-size", "64",
                 "--json"]
        wanted = subprocess.run([*train, "--devices", "3"], capture_output=True, text=True, timeout=LIMIT, check=True)
        launcher = subprocess.Popen([LOCKSTEP, "run", "-np", "3", "--elastic", "2", "--no-prefix", "--", *train],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not launcher.stdout.readline().startswith("Epoch 2"):
            self.assertIsNone(launcher.poll())
        os.kill(next(pid for pid in children_of(launcher.pid) if task_index_of(pid) == 0), signal.SIGKILL)
        out, said = launcher.communicate(timeout=LIMIT)
        self.assertEqual(launcher.returncode, 0, said)
        self.assertIn("2 of 3 workers are left, 2 must be", said)
        got, wanted = json.loads(out.splitlines()[-1]), json.loads(wanted.stdout.splitlines()[-1])
        self.assertEqual((got["num_workers"], got["num_replicas_in_sync"]), (2, 3))
        self.assertEqual(got["weights_sha256"], wanted["weights_sha256"])


class Scaled(Elastic):
    """One replica a device, and a batch that shrinks with them: the data is gone through once an epoch all the same."""

    def train(self, at, **more):
        job = self.run_job(at, "1:4,scaled", **more)
        left = [lives[-1] for lives in job.lives.values() if lives[-1].status == 0]
        results = [life.result() for life in left]
        self.assertEqual(len({result["weights_sha256"] for result in results}), 1, job.describe())
        return job, results

    def test_fewer_replicas_take_more_steps(self):
        """8 steps an epoch are 32 portions; 16 of them are done when one is lost, and three replicas take 16 / 3 steps to the
        epoch's end and 32 / 3 in the next one."""
        job, results = self.train({1: ["committed:4:KILL"]})
        self.assertEqual([result["steps"] for result in results], [4 + 6 + 11] * 3, job.describe())
        self.assertEqual([result["told"] for result in results], [2] * 3, job.describe())
        self.assertIn("this one is rank 1, and holds 1 of 3 replicas", job.lives[2][-1].errors())

    @few
    def test_undisturbed_it_is_as_without(self):
        _, results = self.train({})
        self.assertEqual({result["weights_sha256"] for result in results}, {reference(4)["weights_sha256"]})

    @few
    def test_a_checkpoint(self):
        """All are lost; the portion at which the training stood is where it goes on, with four again."""
        with tempfile.TemporaryDirectory(prefix="lockstep-elastic-test-") as folder:
            options = ("--checkpoint", folder, "--checkpoint-steps", "1")
            self.run_job({1: ["sums:5:KILL"], 0: ["sums:7:KILL"], 2: ["sums:7:KILL"], 3: ["sums:7:KILL"]}, "1:4,scaled",
                         options=options)
            job, results = self.train({}, options=options)
            self.assertIn("training goes on after step", job.lives[0][0].errors())
            self.assertEqual(len(results), 4, job.describe())
            self.assertEqual(len({result["steps"] for result in results}), 1)
            self.assertIn(results[0]["steps"], (16, 17, 18))  # by when the last checkpoint was written

    @few
    def test_a_batch_that_does_not_divide(self):
        job = self.run_job({}, "1:4,scaled", options=("--batch", "30"))
        for life in job.now():
            self.assertIn(life.status, (2, 138), job.describe())
            self.assertRegex(life.last_error(), "batch_size 30 is no multiple of the 4 replicas at the start")


class Back(Elastic):
    """Lost, left out, and started anew."""

    def test_comes_in_again(self):
        for rank in (1,) if SANITIZED else (0, 3):
            job = self.survive({rank: ["sums:5:KILL"]}, options=LONG, hooks=[Returner(rank)])
            other = 1 if rank == 0 else 0
            self.assertEqual(self.entered(job, other), 3, job.describe())
            self.assertIn("worker:%d (rank %d" % (rank, rank), job.lives[other][-1].errors())
            self.assertIn("comes in", job.lives[other][-1].errors())

    @few
    def test_in_time(self):
        """Before the others go on without it: no smaller generation is formed."""
        job = self.survive({1: ["sums:5:KILL"]}, hooks=[Returner(1, entered=1)],
                           environment={"LOCKSTEP_REJOIN_TIMEOUT": "30"})
        self.assertEqual(self.entered(job, 0), 2, job.describe())

    @few
    def test_two(self):
        self.survive({1: ["sums:5:KILL"], 3: ["sums:40:KILL"]}, options=LONG, hooks=[Returner(1), Returner(3, 3)])

    @few
    def test_dies_while_it_comes_in(self):
        """The last one of three is no quorum of itself and the one that it lets in; it goes on all the same."""
        for point in ("links:1:KILL", "state:1:KILL"):
            job = self.survive({0: ["sums:5:KILL", point], 2: ["sums:9:KILL"]}, gone=(0, 2), elastic="1:3", workers=3,
                               options=LONG, hooks=[Returner(0, entered=3)])
            self.assertEqual([len(lives) for lives in job.lives.values()], [2, 1, 1], job.describe())
            self.assertEqual(self.entered(job, 1), 4, job.describe())

    def test_frozen_and_fenced(self):
        """It wakes when the others have gone on without it: it is told so, and comes in as another process."""
        waker = Waker(3.5)
        job = self.survive({2: ["sums:5:STOP"]}, options=("--epochs", "120" if SANITIZED else "800"), hooks=[waker])
        self.assertEqual(waker.woken, 1)
        self.assertIn("went on without this process: it joins anew", job.lives[2][0].errors(), job.describe())
        self.assertEqual(self.entered(job, 0), 3, job.describe())


class FrozenGuest:
    """A hook: starts a lost rank anew when another one has entered that many generations, stops it as soon as it has reached
    all, and ends it when they have gone on without it."""

    def __init__(self, rank, host, entered=2):
        self.rank, self.host, self.entered = rank, host, entered
        self.frozen = self.ended = False

    def __call__(self, job):
        lives, host = job.lives[self.rank], job.lives[self.host][-1]
        if len(lives) == 1 and lives[0].status is not None and len(host.notes("entered")) >= self.entered:
            job.start(self.rank, environment={"LOCKSTEP_REPORT_INTERVAL": "0.02"})
        elif len(lives) == 2 and not self.frozen and "reached, but it has not connected" in lives[1].errors():
            lives[1].process.send_signal(signal.SIGSTOP)
            self.frozen = True
        elif self.frozen and not self.ended and len(host.notes("entered")) > self.entered:
            lives[1].kill()
            self.ended = True


class Guest(Elastic):
    @few
    def test_frozen_when_it_is_let_in(self):
        """The others wait for it for 2 s, and go on without it. The members look who knocks once a second, so that
        it can be frozen before they do; where it was not, once more."""
        for _ in range(5):
            guest = FrozenGuest(1, host=0)
            job = self.survive({1: ["sums:5:KILL"]}, elastic="1:2", workers=2, gone=(1,), options=LONG, hooks=[guest],
                               environment={"LOCKSTEP_HEARTBEAT_LIMIT": "4", "LOCKSTEP_HEARTBEAT_INTERVAL": "1"})
            waits = [float(seconds) for seconds in re.findall(r"go on after ([\d.]+) s", job.lives[0][0].errors())]
            if guest.ended and len(waits) > 1:
                break
        self.assertGreater(waits[1], 1.9, job.describe())
        self.assertLess(waits[1], 5, job.describe())


class Ends(Elastic):
    def fail(self, at, elastic, pattern):
        job = self.run_job(at, elastic)
        for rank, lives in job.lives.items():
            if rank not in at:
                self.assertEqual(lives[-1].status, 138, job.describe())
                self.assertRegex(lives[-1].last_error(), pattern, job.describe())

    @few
    def test_half_without_the_lowest(self):
        self.fail({0: ["sums:5:KILL"], 2: ["sums:5:KILL"]}, "1:4", r"worker:[02] .*was lost.* may not go on.*not most of")

    def test_fewer_than_the_least(self):
        self.fail({1: ["sums:5:KILL"]}, "4:4", r"worker:1 \(rank 1, .* was lost.* fewer than the 4 of LOCKSTEP_ELASTIC")

    @few
    def test_different_settings(self):
        job = self.run_job({}, "2:3", workers=3, task_environment=lambda rank: {
            "LOCKSTEP_ELASTIC": "1:3"} if rank == 2 else {})
        for life in job.now():
            self.assertEqual(life.status, 2, job.describe())
            self.assertRegex(life.last_error(), "what LOCKSTEP_ELASTIC says differs: '2'.*'1'.*rank 2")

    @few
    def test_division(self):
        done = subprocess.run([LOCKSTEP, "run", "-np", "2", "--elastic", "1", "--", LOCKSTEP, "train", "--dataset", "digits",
                               "--limit", "100", "--division", "tensorflow"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("division TENSORFLOW needs as many replicas on every worker", done.stderr)

    @few
    def test_words(self):
        job = self.run_job({}, "2:5", workers=3)
        for life in job.now():
            self.assertEqual(life.status, 2, job.describe())
            self.assertRegex(life.last_error(), "elastic '2:5' is not MIN:MAX")


if __name__ == "__main__":
    unittest.main(verbosity=2)
