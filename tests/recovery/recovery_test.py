#!/usr/bin/env python3
"""Recovery in place: a worker is lost at each named point and started anew; the others keep their processes, and all end
with the bits of the undisturbed training. The long form is scripts/chaos."""
import fcntl
import functools
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest
from collections import Counter

from job import LIMIT, SANITIZED, FreezeAll, Inheritor, Job, JobCase, Killer, Waker, few, half, is_stopped, some, undisturbed
from modes import MODES
from points import LINK_POINTS, OF_SERVERS, POINTS, in_sources, moment
from servers import WATCHED, Servers

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
LOOP = os.environ.get("RECOVERY_LOOP", "build/tests/recovery/loop")
STEPS = 16  # of the training as it is without options
reference = functools.lru_cache(undisturbed)


def kills(points):
    return sum(point.endswith("KILL") for point in points)


class Base(JobCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-recovery-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_job(self, at=None, workers=3, options=(), hooks=(), **more):
        job = Job(workers, options, at=at, **more)
        self.addCleanup(job.folder.cleanup)
        return job.start_all().finish(hooks)

    def check(self, job, options=()):
        self.expect_none(job.faults(reference(len(job.lives), *options)), job)

    def survive(self, at=None, workers=3, options=(), wanted=None, **more):
        """All is well in the end, and each loss has happened."""
        with self.subTest(at=at):
            job = self.run_job(at, workers, options, **more)
            self.check(job, wanted or options)
            for rank, points in (at or {}).items():
                self.assertEqual(len(job.lives[rank]), 1 + kills(points), job.describe())
            return job


class Points(Base):
    def test_all_are_here(self):
        self.assertEqual(sorted([*POINTS, *LINK_POINTS, *OF_SERVERS]), in_sources())

    def test_a_worker_lost_at_each(self):
        ranks = (0, 1, 2)
        for number, point in some(enumerate(POINTS)):
            if point in ("meeting", "drain", "fragment"):
                continue
            rank = 0 if POINTS[point].only_first else ranks[number % 3]
            options = {"checkpoint": ("--checkpoint", self.folder, "--checkpoint-steps", "3"),
                       "exchange": ("--synchronized",), "gathered": ("--accumulate", "2")}.get(point.partition("_")[0], ())
            self.survive({rank: [moment(point, 5)]}, options=options, wanted=())

    @half
    def test_in_a_meeting(self):
        """Between two of them, too: all go back to the last one, and to the bits of as many workers."""
        options = ("--local", "3")
        wanted = self.run_job(options=options).lives[0][0].result()
        for rank, point in some(((0, "meeting:2:KILL"), (1, "committed:5:KILL"), (2, "meeting:5:KILL"))):
            with self.subTest(rank=rank, point=point):
                job = self.run_job({rank: [point]}, options=options)
                self.expect_none(job.faults(wanted), job)
                self.assertEqual(len(job.lives[rank]), 2, job.describe())

    @half
    def test_between_fragments_that_meet(self):
        """In an exchange beside training, between two of them, and where the whole model meets: the bits are the same."""
        options = ("--local", "4", "--fragments", "2")
        wanted = self.run_job(options=options).lives[0][0].result()
        self.assertNotEqual(wanted["weights_sha256"], self.run_job(options=("--local", "4")).lives[0][0].result()["weights_sha256"])
        moments = ((0, "fragment:2:KILL"), (1, "committed:7:KILL"), (2, "meeting:2:KILL"), (1, "fragment:4:KILL"))
        for rank, point in some(moments):
            with self.subTest(rank=rank, point=point):
                job = self.run_job({rank: [point]}, options=options)
                self.expect_none(job.faults(wanted), job)
                self.assertEqual(len(job.lives[rank]), 2, job.describe())

    @half
    def test_amid_an_epoch_of_random_examples(self):
        """Drawn from a buffer, augmented, and read ahead by threads: the same ones to the bit, wherever it is."""
        options = ("--pipeline",)
        self.assertNotEqual(reference(3, *options)["weights_sha256"], reference(3)["weights_sha256"])
        for rank, point in some(((0, "committed:3:KILL"), (2, "sums:11:KILL"))):
            self.survive({rank: [point]}, options=options)

    @few
    def test_of_a_regression(self):
        """Targets that are numbers, and weights: in a step, in validation, in predict."""
        options = ("--numbers",)
        self.assertNotEqual(reference(3, *options)["weights_sha256"], reference(3)["weights_sha256"])
        for rank, point in ((0, "sums:5:KILL"), (1, "evaluate:1:KILL"), (2, "predict:2:KILL")):
            self.survive({rank: [point]}, options=options)

    @few
    def test_of_a_gpt(self):
        """Whose labels do not all count: where replicas count them, in backward, and in predict."""
        options = ("--text",)
        for transport in some(("shm", "tcp")):
            for rank, point in ((0, "exchange:5:KILL"), (1, "bucket:9:KILL"), (2, "predict:1:KILL")):
                self.survive({rank: [point]}, options=options, environment={"LOCKSTEP_TRANSPORT": transport})

    @few
    def test_in_a_second_fit(self):
        """Who comes back has the first one's result at once."""
        for rank, point in ((0, "sums:21:KILL"), (1, "committed:17:KILL")):
            self.survive({rank: [point]}, options=("--fits", "2"))

    @few
    def test_of_two_models(self):
        """Trained in turn with one strategy: in the fit of either, in a prediction, and of two workers at once."""
        options = ("--two", "--fits", "2", "--epochs", "1")
        for at in ({0: ["sums:3:KILL"]}, {1: ["sums:11:KILL"]}, {2: ["committed:20:KILL"]}, {0: ["predict:6:KILL"]},
                   {0: ["sums:27:KILL"], 2: ["sums:27:KILL"]}, {1: ["exit:1:KILL"]}):
            self.survive(at, options=options)

    @few
    def test_in_predict(self):
        """In the middle of its 4 steps, in the first fit's and the second's; and two at once."""
        options = ("--fits", "2")
        for at in ({0: ["predict:3:KILL"]}, {2: ["predict:6:KILL"]}, {0: ["predict:2:KILL"], 1: ["predict:2:KILL"]}):
            self.survive(at, options=options)

    @few
    def test_after_predict(self):
        """The others have its outputs already: in the second fit, in evaluate, and at the end."""
        options = ("--fits", "2")
        for rank, point in ((1, "sums:21:KILL"), (0, "exit:1:KILL")):
            self.survive({rank: [point]}, options=options)

    @few
    def test_in_an_exchange(self):
        """Synchronized batch normalization: forward and backward, of either rank."""
        for rank, times in ((0, 8), (1, 9), (2, 31)):
            self.survive({rank: ["exchange:%d:KILL" % times]}, options=("--synchronized",))

    @few
    def test_amid_the_batches_of_a_step(self):
        """Which begins again with its first one: of three, and of the two that an epoch's last step has."""
        for rank, times in ((0, 2), (1, 5), (2, 8)):
            self.survive({rank: ["gathered:%d:KILL" % times]}, options=("--accumulate", "3"))

    @few
    def test_each_rank_of_four(self):
        for rank in range(4):
            self.survive({rank: ["sums:5:KILL"]}, workers=4)

    @few
    def test_the_last_step_and_the_first(self):
        self.survive({1: ["committed:%d:KILL" % STEPS]})
        self.survive({0: ["sums:1:KILL"]})

    def test_at_random_moments(self):
        seed = random.randrange(1 << 30)
        draw = random.Random(seed)
        for _ in range(1 if SANITIZED else 4):
            killer = Killer(draw.randrange(3), draw.uniform(0, 0.4))
            with self.subTest(seed=seed, rank=killer.rank, seconds=killer.seconds):
                self.check(self.run_job(options=("--epochs", "3"), hooks=[killer]), ("--epochs", "3"))


    @few
    def test_while_all_leave(self):
        """Where some have heard its last word and others have not, and some have left already."""
        for _ in range(5):
            killer = Killer(random.randrange(4), random.uniform(0, 0.003), point="exit")
            with self.subTest(rank=killer.rank, seconds=killer.seconds):
                self.check(self.run_job(workers=4, hooks=[killer]))


class Sharded(Base):
    """Workers that own the optimizer's moments. One is lost before they update their parts and behind it, when it has the new
    variables and the others may not, when it gives what others lack; in the others' steps too, and in their recovery."""
    CASES = ({0: ["applied:5:KILL"]}, {1: ["gather:5:KILL"]}, {2: ["gather:16:KILL"]}, {1: ["commit:9:KILL"]}, {2: ["handover:1:KILL"]},
             {0: ["sums:7:KILL", "handed_over:1:KILL"]}, {1: ["applied:1:KILL", "handover:1:KILL"]}, {2: ["verify:1:KILL"]})

    def test_a_worker_lost_at_each(self):
        for at in some(self.CASES):
            self.survive(at, environment={"RECOVERY_SHARD": "2", **random.choice(({}, {"RECOVERY_DIVIDE": "1"}))})

    @half
    def test_and_its_moments_come_from_the_checkpoint(self):
        options = ("--checkpoint", self.folder, "--checkpoint-steps", "3")
        self.survive({rank: ["gather:11:KILL"] for rank in range(3)}, options=options, wanted=(),
                     environment={"RECOVERY_SHARD": "1", **random.choice(({}, {"RECOVERY_DIVIDE": "1"}))})


class Dialled(Base):
    """A worker is lost while a data link is made: it has dialled and has no answer yet, or has admitted who dialled it and
    has not answered. In the first group, and in the group of a recovery."""
    CASES = ((2, ["dial:1:KILL"]), (0, ["admit:1:KILL"]), (1, ["admit:1:KILL"]), (1, ["sums:5:KILL", "dial:1:KILL"]),
             (0, ["sums:5:KILL", "admit:2:KILL"]))

    def test_and_started_anew(self):
        for rank, points in some(self.CASES):
            self.survive({rank: points}, environment={"LOCKSTEP_TRANSPORT": "tcp"})

    def test_and_not_started_anew(self):
        for rank, (point, *_) in some(self.CASES[:3]):
            with self.subTest(rank=rank, point=point):
                environment = {"LOCKSTEP_TRANSPORT": "tcp", "LOCKSTEP_REJOIN_TIMEOUT": "0.5",
                               "LOCKSTEP_JOIN_TIMEOUT": "2"}
                job = self.run_job({rank: [point]}, environment=environment, restart=False)
                hurt = job.lives[rank][0].notes("hurt")[0][0]
                self.assertLess(time.monotonic_ns() - hurt, (20 if SANITIZED else 6) * 1e9)
                for other in {0, 1, 2} - {rank}:
                    life = job.lives[other][0]
                    self.assertEqual(life.status, 138, job.describe())
                    self.assertIn("worker:%d" % rank, life.last_error(), job.describe())


class Loops(Base):
    """Custom loops and bare collectives, whose programs say what is recovered."""

    def lose(self, at, *options, wanted=None):
        with self.subTest(at=at, options=options):
            job = self.run_job(at, options=options, program=LOOP)
            wanted = wanted or undisturbed(3, *options, program=LOOP)
            self.expect_none(job.faults(wanted), job)
            for rank, points in at.items():
                self.assertEqual(len(job.lives[rank]), 1 + kills(points), job.describe())

    def test_a_custom_loop(self):
        for rank, point in some(((0, "gradient:5:KILL"), (1, "reduced:9:KILL"), (2, "step:1:KILL"), (1, "form:1:KILL"),
                                 (0, "step:24:KILL"))):
            self.lose({rank: [point]})

    @few
    def test_before_its_first_commit(self):
        """Where nobody has a state yet: iterators and variables are made without the others."""
        wanted = undisturbed(3, "--evaluate", program=LOOP)
        for at in ({1: ["opening:1:KILL"]}, {0: ["opening:1:KILL"], 2: ["opening:1:KILL"]}):
            self.lose(at, "--evaluate", wanted=wanted)

    @few
    def test_two_of_a_custom_loop(self):
        self.lose({0: ["reduced:7:KILL"], 2: ["reduced:7:KILL"]})
        self.lose({1: ["gradient:3:KILL", "state:1:KILL"]})

    def test_with_an_evaluation(self):
        """Whose iterator is made anew between two commits: each iterator has its own position again, whoever is lost, before
        the commit that comes next or after it, and where a process is started anew."""
        wanted = undisturbed(3, "--evaluate", program=LOOP)
        for at in some(({0: ["evaluating:3:KILL"]}, {1: ["gradient:8:KILL"]}, {2: ["gradient:16:KILL"]},
                        {0: ["evaluating:2:KILL"], 2: ["step:9:KILL"]})):
            self.lose(at, "--evaluate", wanted=wanted)

    def test_between_two_fits(self):
        """In the first fit, in the loop and in the second: a process has the state of all three."""
        wanted = undisturbed(3, "--fits", program=LOOP)
        for at in some(({0: ["committed:5:KILL"]}, {1: ["reduced:9:KILL"]}, {2: ["sums:15:KILL"]},
                        {0: ["gradient:3:KILL"], 1: ["sums:18:KILL"]}, {1: ["step:2:KILL", "committed:4:KILL"]},
                        {0: ["exit:1:KILL"]})):
            self.lose(at, "--fits", wanted=wanted)

    def test_with_another_evaluation(self):
        job = Job(3, ("--evaluate",), at={1: ["gradient:4:KILL"]}, restart=False, program=LOOP)
        self.addCleanup(job.folder.cleanup)

        def start_other(job):
            if job.lives[1][0].status is not None and len(job.lives[1]) == 1:
                job.start(1, [LOOP, "--evaluate", "--other-batch", "16"])
        job.start_all().finish([start_other])
        for life in job.now():
            self.assertIn(life.status, (2, 138), job.describe())
            self.assertRegex(life.last_error(), "iterator 1 batch_size differs: '8'.*'16' on rank 1", job.describe())

    def test_collectives(self):
        wanted = {"steps": 24, "weights_sha256": "0x1.c2p+10 ", "val_accuracy": 0, "told": 0}  # 6 x (1 + ... + 24)
        for rank, point in some(((0, "gradient:5:KILL"), (1, "step:9:KILL"), (2, "gradient:24:KILL"))):
            self.lose({rank: [point]}, "--collectives", wanted=wanted)

    def test_calls_that_were_begun(self):
        """What has begun on some ranks ends with an error on all, and is made again."""
        wanted = {"steps": 24, "weights_sha256": "0x1.c2p+10 ", "val_accuracy": 0, "told": 0}
        for at in some(({0: ["gradient:5:KILL"]}, {1: ["begun:8:KILL"]}, {2: ["begun:70:KILL"]}, {0: ["reduced:13:KILL"]},
                        {1: ["begun:4:KILL", "form:1:KILL"]}, {0: ["begun:11:KILL"], 2: ["reduced:9:KILL"]})):
            self.lose(at, "--collectives", "--begun", wanted=wanted)

    def test_process_sets(self):
        """A new process gets the sets that the others have, and all go on in them; so does a message between two ranks."""
        wanted = {"steps": 24, "weights_sha256": "0x1.3ecp+13 ", "val_accuracy": 0, "told": 0}  # 34 x (1 + ... + 24)
        for at in some(({0: ["gradient:5:KILL"]}, {1: ["reduced:9:KILL"]}, {2: ["step:7:KILL", "group:1:KILL"]},
                        {0: ["gradient:3:KILL"], 2: ["reduced:3:KILL"]}, {1: ["gradient:4:KILL"], 0: ["entered:2:KILL"]})):
            self.lose(at, "--collectives", "--sets", wanted=wanted)


class Several(Base):
    def test_at_once(self):
        self.survive({0: ["sums:5:KILL"], 1: ["sums:5:KILL"]})

    def test_all_but_one(self):
        self.survive({0: ["sums:5:KILL"], 1: ["sums:5:KILL"], 3: ["commit:5:KILL"]}, workers=4)

    @few
    def test_a_survivor_lost_in_the_recovery(self):
        """From its beginning to its end; the convener too, and the source of the state."""
        for at in ({1: ["sums:5:KILL"], 2: ["form:2:KILL"]}, {1: ["sums:5:KILL"], 0: ["propose:2:KILL"]},
                   {0: ["sums:5:KILL"], 1: ["propose:1:KILL"]}, {0: ["sums:5:KILL"], 2: ["group:2:KILL"]},
                   {1: ["commit:5:KILL"], 2: ["accepted:2:KILL"]}, {2: ["sums:5:KILL"], 0: ["begin:2:KILL"]},
                   {2: ["sums:5:KILL"], 1: ["entered:2:KILL"]}):
            self.survive(at)

    def test_the_one_that_comes_back(self):
        for points in some((["form:1", "entered:1"], ["links:1"], ["state:1"], ["accepted:1", "bucket:1"])):
            self.survive({1: ["sums:5:KILL"] + [point + ":KILL" for point in points]})

    @few
    def test_again_and_again(self):
        self.survive({rank: ["committed:2:KILL"] * 2 for rank in range(3)})

    def test_all_with_a_checkpoint(self):
        options = ("--checkpoint", self.folder, "--checkpoint-steps", "3")
        self.survive({rank: ["sums:11:KILL"] for rank in range(3)}, options=options, wanted=())
        self.assertEqual(os.listdir(self.folder), [])


class InStore(Base):
    """Servers that keep the variables, which reach points as the workers do."""
    MODE = MODES["store"]

    def run_in_store(self, at, workers, options, hook=None, restart=True):
        """hook is called with the job and its servers. Returns both."""
        servers = Servers(self.MODE.servers, 0, loses=False, command=WATCHED)
        servers.restart = restart
        hooks = [servers] + [lambda job: hook(job, servers)] * bool(hook)
        return self.run_job(at, workers, options, hooks=hooks, restart=restart, environment=self.MODE.environment,
                            servers=self.MODE.servers), servers


class Undone(InStore):
    """What a step with parameter servers has begun, and what a loss makes undone."""
    OPTIONS, STEP = ("--epochs", "3"), 11

    def train(self, at, options=(), hook=None):
        job, servers = self.run_in_store(at, 3, (*self.OPTIONS, *options), hook)
        self.expect_none(servers.faults(job), job)
        self.check(job, self.OPTIONS)
        return job

    def lose_amid_a_pull(self, victim, each, options=()):
        """A server stops when it has sent the first ones of the new variables. The victim, which has them and has stopped, is
        killed when all others have them; the server wakes when these have undone them."""
        number = each * (self.STEP - 1) + 1
        point = "pull:%d:STOP" % number

        def lose(job, servers):
            lost, stay = job.lives[victim][0], [job.lives[rank][0] for rank in range(3) if rank != victim]
            server = servers.processes[0][1]
            if server.poll() is not None or not is_stopped(server.pid):
                return
            if lost.status is None and lost.is_stopped() and all(len(life.notes("pull")) == number for life in stay):
                lost.kill()
            elif lost.status is not None and all(life.notes("undo") for life in stay):
                server.send_signal(signal.SIGCONT)
        return self.train({victim: [point], "ps:0": [point]}, options, lose)

    def test_half_a_pull(self):
        """All that stay have some of the new variables, and have begun the next step. They go back to the step before."""
        notes = self.train({}).lives[0][0].notes
        each = len(notes("pull")) // len(notes("sums"))
        self.assertGreaterEqual(each, 2, "the model has one bucket")
        for victim in some((2, 0)):
            self.lose_amid_a_pull(victim, each)
        # They ask again for the checkpoint for which they asked in the step that is undone
        save = ("--checkpoint", self.folder, "--checkpoint-steps", "1000", "--save", str(self.STEP))
        job = self.lose_amid_a_pull(2, each, save)
        self.assertEqual(len(job.lives[0][0].notes("checkpoint")), 1, job.describe())


class Left(InStore):
    """Servers that keep the variables leave for good amid a step, and the workers are asked to stop. The checkpoint that they
    save then, or none, leads to the weights of the undisturbed training."""
    STEPWISE = ("--epochs", "20", "--limit", "32")  # an epoch is a step, and brings the moments
    ROUNDS = 60 if os.environ.get("LOCKSTEP_TEST_FULL") else 1 if SANITIZED else 2

    def train(self, options, at=None, hook=None):
        job, servers = self.run_in_store(at, 2, options, hook, restart=not at)
        reached = servers.reached(0)
        servers.end()
        return job, Counter(reached)

    def leave_at(self, points, options, saves, statuses):
        """Each server at its point. All workers end with one of the statuses."""
        folder = tempfile.mkdtemp(dir=self.folder)
        flag, saving = os.path.join(folder, "stop"), ("--checkpoint", folder, "--checkpoint-steps", str(saves))

        def ask(_, servers):
            if servers.gone and not os.path.exists(flag):
                open(flag, "w", encoding="ascii").close()
        with self.subTest(points=points, options=options, saves=saves):
            at = {"ps:%d" % index: [point + ":KILL"] for index, point in enumerate(points)}
            job, _ = self.train((*options, *saving, "--stop-file", flag), at, ask)
            ended = {life.status for life in job.now()}
            self.assertTrue(len(ended) == 1 and ended <= set(statuses), job.describe())
            again, _ = self.train((*options, *saving))
            got, wanted = again.lives[0][0].result(), reference(2, *options)
            self.assertEqual([got["weights_sha256"], got["steps"]], [wanted["weights_sha256"], wanted["steps"]], job.describe())

    def test_amid_the_moments(self):
        """Of one step all have come, of the next one half: these are not the first one's."""
        self.leave_at(["moments:9"] * self.MODE.servers, self.STEPWISE, 1000, [143])

    def test_at_any_point(self):
        """Of a server that has come to it in an undisturbed training, before all have finished."""
        seed = random.randrange(1 << 30)
        draw = random.Random(seed)
        for _ in range(self.ROUNDS):
            with self.subTest(seed=seed):
                options = draw.choice([self.STEPWISE, ("--epochs", "4"), ("--epochs", "12", "--limit", "96")])
                _, reached = self.train(options)
                joins = {*LINK_POINTS, *(name for name in POINTS if POINTS[name].recovers)}  # where the join's timeout is waited for
                name = draw.choice(sorted(name for name in reached if reached[name] > 3 and name not in joins))
                number = draw.randint(2, reached[name] - 1)
                points = ["%s:%d" % (name, number + draw.randint(0, 1)) for _ in range(draw.randint(1, self.MODE.servers))]
                # 138: too many have left with the moments; 0: in the last step
                self.leave_at(points, options, draw.choice([1, 3, 1000]), [0, 138, 143])


class Inherited(Base):
    """Others are lost when one that was started anew has just taken the state over, and has done nothing with it yet."""

    def lose(self, workers, others, at="resumed:1:STOP", options=(), seconds=0.0, wanted=()):
        hook = Inheritor(1, others, seconds)
        job = self.survive({1: ["sums:5:KILL", at]}, workers, options, wanted=wanted, hooks=[hook])
        self.assertIsNotNone(hook.killed, job.describe())
        self.assertEqual([len(job.lives[rank]) for rank in others], [2] * len(others), job.describe())
        self.assertIn("took the state", job.lives[1][1].errors())
        return job

    def test_in_its_fit(self):
        for workers, others in some(((2, (0,)), (3, (0,)), (3, (0, 2)))):
            self.lose(workers, others)

    @few
    def test_with_a_checkpoint(self):
        """Which nobody goes back to: the one that came back has the newer state."""
        options = ("--checkpoint", self.folder, "--checkpoint-steps", "3")
        for workers, others in ((2, (0,)), (3, (0, 2))):
            job = self.lose(workers, others, options=options)
            self.assertNotIn("training goes on after step", job.lives[0][1].errors())
            self.assertEqual(os.listdir(self.folder), [])

    @few
    def test_before_its_fit(self):
        """While its program opens the data."""
        for workers, others in ((2, (0,)), (3, (2,)), (3, (0, 2))):
            self.lose(workers, others, at="", options=("--pause", "600"), seconds=0.2)


class Frozen(Base):
    ENVIRONMENT = {"LOCKSTEP_HEARTBEAT_LIMIT": "1", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.1"}

    def test_longer_than_the_limit(self):
        """It wakes before it is left out, and takes part again with its state."""
        for rank, point in some(((0, "sums:5:STOP"), (1, "committed:5:STOP"), (2, "commit:5:STOP"))):
            waker = Waker(1.8)
            self.survive({rank: [point]}, environment=self.ENVIRONMENT, hooks=[waker])
            self.assertEqual(waker.woken, 1)

    @few
    def test_while_another_is_lost(self):
        waker = Waker(1.8)
        self.survive({0: ["sums:5:STOP"], 1: ["sums:5:KILL"]}, environment=self.ENVIRONMENT, hooks=[waker])
        self.assertEqual(waker.woken, 1)

    @few
    def test_at_the_end(self):
        """It wakes with everybody's part of the last position; the others, which seek it, learn that from it."""
        waker = Waker(1.8)
        self.survive({2: ["exit:1:STOP"]}, environment=self.ENVIRONMENT, hooks=[waker])
        self.assertEqual(waker.woken, 1)

    @few
    def test_longer_than_an_attempt_may_take(self):
        """No beat is missed, as the limit is long; the others begin the generation's connections anew, wherever in the
        attempt it stands, and a convener too."""
        environment = {"LOCKSTEP_COLLECTIVE_TIMEOUT": "2", "LOCKSTEP_HEARTBEAT_LIMIT": "60"}
        for rank, point in some([(rank, point) for rank in (0, 2) for point in ("links", "group", "state")]):
            with self.subTest(rank=rank, point=point):
                waker = Waker(3.5)
                job = self.survive({rank: [point + ":2:STOP"], 1: ["sums:5:KILL"]}, environment=environment, hooks=[waker])
                self.assertEqual(waker.woken, 1)
                log = job.lives[0][0].errors()
                took = re.findall(r"all 3 workers are there after ([\d.]+) s \(generation (\d+):", log)
                self.assertGreater(float(took[-1][0]), 2, job.describe())

    def test_all_at_once(self):
        """As when a laptop's lid closes, or a host's virtual machines are all stopped: nobody was there to lose anybody."""
        for steps, seconds, pause in some(((3, 1.8, 0), (7, 4, 0), (5, 1.8, 0.4))):
            freezer = FreezeAll(steps, seconds, pause)
            with self.subTest(steps=steps, seconds=seconds, pause=pause):
                job = self.run_job(options=("--epochs", "3"), environment=self.ENVIRONMENT, hooks=[freezer])
                self.check(job, ("--epochs", "3"))
                self.assertEqual(freezer.frozen, 3)
                self.assertEqual([len(lives) for lives in job.lives.values()], [1, 1, 1], job.describe())

    @few
    def test_in_the_recovery(self):
        for point in ("propose:2:STOP", "links:2:STOP", "accepted:2:STOP"):
            waker = Waker(1.8)
            self.survive({0: [point], 1: ["sums:5:KILL"]}, environment=self.ENVIRONMENT, hooks=[waker])
            self.assertEqual(waker.woken, 1)


class Nobody(Base):
    """The lost one is not started anew."""

    def lose(self, seconds, longest):
        job = Job(3, at={1: ["sums:5:KILL"]}, environment={"LOCKSTEP_REJOIN_TIMEOUT": seconds}, restart=False)
        self.addCleanup(job.folder.cleanup)
        job.start_all().finish()
        hurt = job.lives[1][0].notes("hurt")[0][0]
        self.assertLess(time.monotonic_ns() - hurt, longest * 1e9)
        self.assertEqual([job.lives[rank][0].status for rank in (0, 2)], [138, 138], job.describe())
        for rank in (0, 2):
            self.assertRegex(job.lives[rank][0].last_error(), r"worker:1 \(rank 1, .*\) was lost")
        return [job.lives[rank][0] for rank in (0, 2)]

    def test_comes_back_in_time(self):
        for life in self.lose("1", 20 if SANITIZED else 8):
            self.assertIn("LOCKSTEP_REJOIN_TIMEOUT", life.last_error())

    @few
    def test_is_waited_for(self):
        for life in self.lose("0", 5):
            self.assertNotIn("REJOIN", life.errors())


class Stranger:
    """A hook: when the first task is lost, another job takes the checkpoint folder before that task is started anew, and ends
    when it has committed some steps."""

    def __init__(self, folder, steps):
        self.path, self.steps, self.lock, self.taken = os.path.join(folder, ".lock"), steps, None, False

    def __call__(self, job):
        lives = job.lives[0]
        if not self.taken and lives[0].status is not None:
            self.lock = open(self.path, "r+", encoding="ascii")
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.lock.write("pid 4711 on elsewhere job 00000000deadbeef\n")
            self.lock.truncate()
            self.lock.flush()
            self.taken = True
            job.start(0)
        if self.lock and len(lives) > 1 and len(lives[1].notes("committed")) >= self.steps:
            os.unlink(self.path)
            self.lock.close()
            self.lock = None


class Folder(Base):
    """What happens to the folder of checkpoints while somebody is lost."""

    def test_another_job_takes_it(self):
        """The training, whose state is in the others' memory, goes on, and keeps its checkpoints as soon as it can."""
        options = ("--checkpoint", self.folder, "--checkpoint-steps", "2", "--epochs", "40")
        stranger = Stranger(self.folder, 20)
        job = Job(2, options, at={0: ["committed:9:KILL"]}, restart=False)
        self.addCleanup(job.folder.cleanup)
        job.start_all().finish([stranger])
        self.assertTrue(stranger.taken and not stranger.lock)
        self.check(job, ("--epochs", "40"))
        said = job.lives[0][1].errors()
        self.assertIn("in use by another job, process 4711 on elsewhere", said)
        self.assertIn("training goes on without a new checkpoint", said)
        self.assertIn("checkpoints are written to '%s' again" % self.folder, said)
        self.assertEqual(os.listdir(self.folder), [])


class Settled(Base):
    """A checkpoint is published when every worker has committed its step, so that no step has two."""

    def test_one_that_has_not_committed(self):
        """Rank 1 has given its gradients of the third step and stops before it commits; the chief has."""
        seen = []

        def look(job):
            life = job.lives[1][0]
            if life.status is None and life.is_stopped() and not seen:
                deadline = time.monotonic() + 5
                while len(job.lives[0][0].notes("committed")) < 3 and time.monotonic() < deadline:
                    time.sleep(0.01)
                time.sleep(0.3)
                seen.append([name for name in os.listdir(self.folder) if name.startswith("checkpoint-")])
                life.wake()
        options = ("--checkpoint", self.folder, "--checkpoint-steps", "3")
        job = self.run_job({1: ["commit:3:STOP"]}, 2, options, hooks=[look])
        self.assertEqual(seen, [[]], job.describe())
        self.assertGreater(len(job.lives[0][0].notes("checkpoint_write")), 0, job.describe())
        self.check(job)


class SlowDisk(Base):
    """The chief's writes take 1.8 s each."""

    def stop(self, seconds, **more):
        options = ("--checkpoint", self.folder, "--checkpoint-steps", "1", "--stop", "3")
        return self.run_job({0: ["checkpoint_write:1:SLOW"]}, 2, options, environment={
            "LOCKSTEP_COLLECTIVE_TIMEOUT": seconds}, restart=False, **more)

    def test_all_wait_for_it(self):
        """Two are to be written when all stop: the first step's, and the last one's."""
        job = self.stop("3")
        for life in job.now():
            self.assertEqual(life.status, 143, job.describe())
            self.assertRegex(life.last_error(), "stopped after step 3,.* its checkpoint is in '%s'" % self.folder)
        self.assertIn("checkpoint-%012d.safetensors" % 3, os.listdir(self.folder))

    def test_it_does_not_answer(self):
        job = self.stop("1.2")
        for life in job.now():
            self.assertEqual(life.status, 143, job.describe())
            self.assertRegex(life.last_error(), r"stopped after step 3,.* could not be saved: .* step [123] is still being "
                                                r"written to '%s' after LOCKSTEP_COLLECTIVE_TIMEOUT \(1.2 s\)" % self.folder)


class Refused(Base):
    """A function of the user's returns UNAVAILABLE, as a store that is far away may: that is no loss, and so the training's
    end, with the function's status and words on its worker and ABORTED on the others."""

    def refuse(self, pattern, *options, **more):
        with self.subTest(options=options):
            job = self.run_job(options=options, **more)
            self.assertEqual({life.status for life in job.now()}, {138}, job.describe())
            said = [life.last_error() for life in job.now()]
            self.assertTrue([line for line in said if re.search("error: UNAVAILABLE: .*" + pattern, line)], job.describe())
            for life in job.now():
                self.assertRegex(life.last_error(), pattern, job.describe())
                self.assertNotRegex(life.errors(), "generation 2|LOCKSTEP_REJOIN_TIMEOUT|for it to come back")

    def test_by_a_map_function(self):
        for options in ((), ("--pipeline",)):
            self.refuse("epoch 1, step .*the map function failed at example 5: UNAVAILABLE", "--refuse", "map", *options)

    def test_by_on_epoch(self):
        self.refuse("on_epoch after epoch 1: it returned UNAVAILABLE", "--refuse", "epoch")

    def test_by_a_replica(self):
        self.refuse("replica 1: its function returned UNAVAILABLE", "--refuse", "1", program=LOOP)


class Different(Base):
    """It comes back as another one than it was: one clear error, on all."""

    def come_back(self, *patterns, options=(), environment=None):
        job = Job(3, at={1: ["sums:5:KILL"]}, restart=False)
        self.addCleanup(job.folder.cleanup)

        def start_other(job):
            if job.lives[1][0].status is not None and len(job.lives[1]) == 1:
                job.start(1, [*job.command, *options], environment)
        with self.subTest(options=options, environment=environment):
            job.start_all().finish([start_other])
            for life in job.now():
                self.assertNotIn(life.status, (0, -signal.SIGKILL), job.describe())
                for pattern in patterns:
                    self.assertRegex(life.last_error(), pattern, job.describe())

    def test_epochs(self):
        self.come_back("epochs differs: '2'.*'3'.*rank 1", options=("--epochs", "3"))

    def test_batch(self):
        self.come_back("batch_size differs: '32'.*'16'.*rank 1", options=("--batch", "16"))

    def test_devices(self):
        self.come_back("rank 1 .*2 devices.*1", environment={"LOCKSTEP_DEVICES": "2"})


@few
class Transports(Base):
    def test_each(self):
        for transport in ("shm", "tcp"):
            self.survive({1: ["bucket:9:KILL"]}, environment={"LOCKSTEP_TRANSPORT": transport})

    def test_token(self):
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write("a token that all of them know\n")
        os.chmod(path, 0o600)
        self.survive({0: ["sums:5:KILL"]}, environment={"LOCKSTEP_TOKEN_FILE": path})

    def test_tls(self):
        folder = os.path.join(self.folder, "certs")
        subprocess.run([LOCKSTEP, "certs", folder, "--tasks", "worker:3"], check=True, capture_output=True, timeout=LIMIT)

        def settings(rank):
            name = os.path.join(folder, "worker-%d" % rank)
            return {"LOCKSTEP_TLS_CERTIFICATE": name + ".pem", "LOCKSTEP_TLS_KEY": name + ".key",
                    "LOCKSTEP_TLS_CA": os.path.join(folder, "ca.pem")}
        self.survive({0: ["sums:5:KILL"]}, task_environment=settings)


class Growth(Base):
    LOSSES = 100 if os.environ.get("LOCKSTEP_TEST_FULL") else 3 if SANITIZED else 10
    BYTES, THREADS = 1 << 20, 3  # allowed growth; gRPC's threads come and go

    def test_of_a_survivor_of_many_losses(self):
        options = ("--epochs", str(2 + self.LOSSES // 4))
        job = self.survive({1: ["committed:2:KILL"] * self.LOSSES}, workers=2, options=options)
        entered = job.lives[0][0].notes("entered")
        self.assertEqual(len(entered), self.LOSSES + 1)
        warm, last = entered[2], entered[-1]
        self.assertLessEqual(last[1], warm[1] + self.BYTES, entered)
        self.assertLessEqual(last[2], warm[2], entered)
        self.assertLessEqual(last[3], warm[3] + self.THREADS, entered)


if __name__ == "__main__":
    unittest.main(verbosity=2)
