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
import time
import unittest

import modes
from job import LIMIT, Job, JobCase, Returner, few, some, undisturbed
from cluster import workers_of
from servers import Servers

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
LOOP = os.environ.get("RECOVERY_LOOP", "build/tests/recovery/loop")
LONG = ("--epochs", "60")  # 480 steps
IMPATIENT = {"LOCKSTEP_HEARTBEAT_LIMIT": "1", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.1", "LOCKSTEP_REJOIN_TIMEOUT": "0"}
reference = functools.lru_cache(undisturbed)


def paced(generations, after="committed:5"):
    """That worker, and so all, take their time for each step until it has entered so many generations: until who was lost
    has come back, however slow its start is."""
    return ["%s:PACE:%d" % (after, generations)]




class Elastic(JobCase):
    def run_job(self, at, elastic, workers=4, options=(), hooks=(), environment=None, restart=False, **more):
        job = Job(workers, options, at=at, restart=restart,
                  environment={**IMPATIENT, "LOCKSTEP_ELASTIC": elastic, **(environment or {})}, **more)
        self.addCleanup(job.folder.cleanup)
        return job.start_all().finish(hooks)

    def survive(self, at, gone=(), elastic="1:4", options=(), wanted=None, **more):
        with self.subTest(at=at):
            job = self.run_job(at, elastic, options=options, **more)
            self.expect_none(job.faults(wanted or reference(len(job.lives), *options), gone), job)
            return job

    def entered(self, job, rank):
        return len(job.lives[rank][-1].notes("entered"))


class Fewer(Elastic):
    def test_three_of_four(self):
        for rank in some(range(4)):
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
        self.expect_none(job.faults(reference(5), (2,)), job)

    @few
    def test_a_long_step_of_a_survivor(self):
        """It is heard, and so it is waited for, though it does not report: it is not left out."""
        job = self.survive({1: ["committed:4:KILL"], 2: ["committed:4:REST"]}, gone=(1,))
        self.assertEqual([self.entered(job, rank) for rank in (0, 2, 3)], [2, 2, 2], job.describe())

    def test_before_it_has_told_its_devices(self):
        """It counts as the first worker: there are as many replicas as if it had told."""
        job = self.survive({3: ["entered:1:KILL"]}, gone=(3,))
        self.assertIn("4 replicas in sync on 3 workers", job.lives[0][0].errors())

    def test_half_with_the_lowest(self):
        self.survive({1: ["sums:5:KILL"], 2: ["sums:5:KILL"]}, gone=(1, 2), elastic="2:4")

    def test_two_models(self):
        """Both are divided anew over the devices that are left."""
        for at in ({1: ["sums:4:KILL"]}, {2: ["sums:22:KILL"]}):
            self.survive(at, gone=tuple(at), options=("--two", "--fits", "2", "--epochs", "1"))

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
    def test_over_tcp(self):
        self.survive({0: ["sums:5:KILL"]}, gone=(0,), environment={"LOCKSTEP_TRANSPORT": "tcp"})

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
        os.kill(workers_of(launcher.pid)[0], signal.SIGKILL)
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
        self.assertIn("this one is rank 1 and has replica 1 of 3", job.lives[2][-1].errors())

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


class ScaledBack(Elastic):
    """Who comes back while another is still missing finds fewer replicas than there were at the start; its batch, its
    description and its data are those of the start all the same."""

    def come_back(self, at, options, returners):
        job = self.run_job(at, "1:4,scaled", options=("--share", "8", *options), hooks=returners)
        back = [returner.rank for returner in returners]
        gone = [rank for rank, (point, *_) in at.items() if point.endswith("KILL") and rank not in back]
        left = [lives[-1] for rank, lives in job.lives.items() if rank not in gone]
        self.assertEqual([life.status for life in left], [0] * len(left), job.describe())
        results = [life.result() for life in left]
        for name in ("weights_sha256", "steps", "outputs", "val_accuracy"):
            self.assertEqual(len({result[name] for result in results}), 1, job.describe())
        for returner in returners:
            self.assertGreaterEqual(self.entered(job, returner.rank), 1, job.describe())
        return job

    def test_while_another_is_missing(self):
        job = self.come_back({0: paced(3), 1: ["sums:5:KILL"], 3: ["sums:5:KILL"]}, LONG, [Returner(1)])
        self.assertIn("has replica 0 of 3", job.lives[0][0].errors())

    @few
    def test_in_the_next_fit(self):
        """Which the others have begun with three."""
        self.come_back({0: paced(3, "committed:485"), 3: ["predict:1:KILL"]}, ("--fits", "2", *LONG), [Returner(3)])

    @few
    def test_both(self):
        self.come_back({0: paced(5), 1: ["sums:5:KILL"], 3: ["sums:40:KILL"]}, LONG, [Returner(1), Returner(3, 3)])


class Back(Elastic):
    """Lost, left out, and started anew."""

    def test_comes_in_again(self):
        for rank in some((0, 1, 3)):
            other = 1 if rank == 0 else 0
            job = self.survive({rank: ["sums:5:KILL"], other: paced(3)}, options=LONG, hooks=[Returner(rank)])
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
        self.survive({0: paced(5), 1: ["sums:5:KILL"], 3: ["sums:40:KILL"]}, options=LONG, hooks=[Returner(1), Returner(3, 3)])

    @few
    def test_dies_while_it_comes_in(self):
        """The last one of three is no quorum of itself and the one that it lets in; it goes on all the same."""
        for point in ("links:1:KILL", "state:1:KILL"):
            job = self.survive({0: ["sums:5:KILL", point], 1: paced(4), 2: ["sums:9:KILL"]}, gone=(0, 2), elastic="1:3", workers=3,
                               options=LONG, hooks=[Returner(0, entered=3)])
            self.assertEqual([len(lives) for lives in job.lives.values()], [2, 1, 1], job.describe())
            self.assertEqual(self.entered(job, 1), 4, job.describe())

    @few
    def test_with_other_options(self):
        """It is refused alone, before it is let in: the others are not stopped for it."""
        def return_otherwise(job):
            if len(job.lives[1]) == 1 and self.entered(job, 0) > 1:
                job.start(1, environment={"LOCKSTEP_ALGORITHM": "direct"})
        short = ("--epochs", "20")  # nobody comes in: it is paced to its end
        job = self.run_job({0: paced(3), 1: ["sums:5:KILL"]}, "1:3", workers=3, options=short, hooks=[return_otherwise],
                           environment={"LOCKSTEP_ALGORITHM": "auto"})
        self.assertEqual([lives[-1].status for lives in job.lives.values()], [0, 2, 0], job.describe())
        self.assertRegex(job.lives[1][-1].last_error(), r"LOCKSTEP_ALGORITHM differs: .*'direct' on worker:1 \(rank 1\)")
        for rank in (0, 2):
            self.assertEqual(self.entered(job, rank), 2, job.describe())
            self.assertEqual(job.lives[rank][0].result()["weights_sha256"], reference(3, *short)["weights_sha256"])

    def wake(self, rank, other):
        """A hook: wakes it when the others have gone on without it, and made a step."""
        def hook(job):
            frozen, entered, committed = job.lives[rank][0], *(job.lives[other][-1].notes(point) for point in ("entered", "committed"))
            if not job.woken and len(entered) > 1 and committed[-1][0] > entered[1][0] and frozen.is_stopped():
                frozen.wake()
                job.woken.append(frozen)
        return hook

    @few
    def test_frozen_while_it_writes_a_checkpoint(self):
        """Another worker has the folder meanwhile. It has it again when it has come in, and what it was writing is no matter."""
        with tempfile.TemporaryDirectory(prefix="lockstep-elastic-test-") as folder:
            options = (*LONG, "--checkpoint", folder, "--checkpoint-steps", "3")
            for point in ("checkpoint:2:STOP", "checkpoint_write:2:STOP"):
                job = self.survive({0: [point], 1: paced(3)}, options=options, wanted=reference(4, *LONG), hooks=[self.wake(0, 1)])
                self.assertEqual(len(job.woken), 1)
                self.assertIn("went on without this process: it joins anew", job.lives[0][0].errors(), job.describe())
                self.assertEqual(os.listdir(folder), [])

    def test_frozen_and_fenced(self):
        """It is told so, and comes in as another process."""
        job = self.survive({0: paced(3), 2: ["sums:5:STOP"]}, options=LONG, hooks=[self.wake(2, 0)])
        self.assertEqual(len(job.woken), 1)
        self.assertIn("went on without this process: it joins anew", job.lives[2][0].errors(), job.describe())
        self.assertEqual(self.entered(job, 0), 3, job.describe())


class Heirs(Elastic):
    """Those who are left are no quorum, and the tasks are started anew at once: where all are back, all go on."""

    def come_back(self, killed, elastic, workers, **more):
        settings = {"LOCKSTEP_REJOIN_TIMEOUT": "30", "LOCKSTEP_HEARTBEAT_LIMIT": "3", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.2"}
        job = self.survive({rank: ["sums:5:KILL"] for rank in killed}, elastic=elastic, workers=workers, restart=True,
                           environment={**settings, **more.pop("environment", {})}, **more)
        for rank in set(range(workers)) - set(killed):
            self.assertEqual(len(job.lives[rank]), 1, job.describe())
        return job

    def test_the_chief_of_two(self):
        self.come_back((0,), "1:2", 2)

    @few
    def test_the_chief_of_two_without_a_rejoin_timeout(self):
        self.come_back((0,), "1:2", 2, environment={"LOCKSTEP_REJOIN_TIMEOUT": "0"})

    def test_two_of_four(self):
        self.come_back((0, 1), "2:4", 4)

    @few
    def test_over_tcp_and_with_tls(self):
        self.come_back((0,), "1:2", 2, environment={"LOCKSTEP_TRANSPORT": "tcp"})
        with tempfile.TemporaryDirectory(prefix="lockstep-elastic-test-") as folder:
            subprocess.run([LOCKSTEP, "certs", folder, "--tasks", "worker:2"], check=True, capture_output=True, timeout=LIMIT)
            self.come_back((0,), "1:2", 2, task_environment=lambda rank: {
                "LOCKSTEP_TLS_CERTIFICATE": "%s/worker-%d.pem" % (folder, rank),
                "LOCKSTEP_TLS_KEY": "%s/worker-%d.key" % (folder, rank), "LOCKSTEP_TLS_CA": folder + "/ca.pem"})

    @few
    def test_all_but_one(self):
        self.come_back((1, 2, 3), "2:4", 4)
        self.come_back((1, 2), "2:3", 3)

    @few
    def test_beside_servers(self):
        """They have no votes. The only survivor has a stream with a worker that has come back just before."""
        at = {2: ["sums:2:KILL", "sums:3:KILL"], 0: ["sums:5:KILL"], 1: ["sums:5:KILL"]}
        for _ in range(4):
            servers = Servers(2, 0, loses=False)
            job = self.run_job(at, "1:4", restart=True, servers=2, hooks=[servers],
                               environment={**modes.SERVERS, "LOCKSTEP_REJOIN_TIMEOUT": "30"})
            self.assertEqual(servers.faults(job), [])
            self.expect_none(job.faults(reference(4)), job)
            self.assertEqual(len(job.lives[3]), 1, job.describe())

    @few
    def test_lost_again_in_the_recovery(self):
        """The heir dies when it has accepted; so does the one that convenes."""
        for at in ({0: ["sums:5:KILL", "accepted:1:KILL"], 1: ["sums:5:KILL"]},
                   {0: ["sums:5:KILL"], 1: ["sums:5:KILL"], 2: ["propose:1:KILL"]}):
            self.survive(at, elastic="2:4", restart=True, environment={"LOCKSTEP_REJOIN_TIMEOUT": "30", "LOCKSTEP_HEARTBEAT_LIMIT": "3"})

    @few
    def test_frozen_then_killed(self):
        """It was given up as silent before it ended: its host answers, and says in the end that it has."""
        killer = KillStopped(4.5)
        job = self.survive({0: ["sums:5:STOP"]}, elastic="1:2", workers=2, restart=True, hooks=[killer], environment={
            "LOCKSTEP_REJOIN_TIMEOUT": "30", "LOCKSTEP_HEARTBEAT_LIMIT": "3", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.2"})
        self.assertEqual((killer.killed, len(job.lives[1])), (1, 1), job.describe())

    @few
    def test_says_what_is_missing(self):
        job = self.run_job({0: ["sums:5:KILL"]}, "1:2", workers=2, environment={"LOCKSTEP_REPORT_INTERVAL": "0.5"})
        said, votes = job.lives[1][0].errors(), (
            "votes: 1 of the 2 of the workers before are here, not most of them, nor half with worker:0; worker:0: it ended, "
            "and is not started anew yet")
        self.assertEqual(job.lives[1][0].status, 138, job.describe())
        self.assertRegex(said, r"waiting for 1 of 2 workers since \d+ s, \d+ s left: worker:0 .*refused; and for " + votes)
        self.assertIn("may not go on without 1 of 2 workers", job.lives[1][0].last_error())
        self.assertIn("and for " + votes, job.lives[1][0].last_error())


class KillStopped:
    """A hook: kills whoever has stopped itself, after that many seconds."""

    def __init__(self, seconds):
        self.seconds, self.since, self.killed = seconds, None, 0

    def __call__(self, job):
        for life in job.now():
            if life.status is not None or not life.is_stopped():
                continue
            self.since = self.since or time.monotonic()
            if time.monotonic() > self.since + self.seconds:
                life.kill()
                self.killed += 1


class FrozenGuest:
    """A hook: starts a lost rank anew when another one has entered that many generations, stops it as soon as it has reached
    all, and ends it when they have gone on without it. Where the others finish before they let it in, it is ended too."""

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
        elif self.frozen and host.status is not None and lives[1].status is None:
            lives[1].kill()


class Guest(Elastic):
    @few
    def test_frozen_when_it_is_let_in(self):
        """The others wait for it for 2 s, and go on without it. The members look who knocks once a second, so that
        it can be frozen before they do; where it was not, once more. The one that goes on takes its time for each step."""
        for _ in range(5):
            guest = FrozenGuest(1, host=0)
            job = self.survive({1: ["sums:5:KILL"], 0: paced(3)}, elastic="1:2", workers=2, gone=(1,),
                               options=LONG, hooks=[guest],
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
