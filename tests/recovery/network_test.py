#!/usr/bin/env python3
"""Recovery between hosts: links that are cut, lose packets or are slow, a worker that is slow, and one that wakes when the
group has gone on without it. The result is the undisturbed training's, and reports name the right worker and reason. The
long form is scripts/chaos. Needs root and, for packets that are lost, TAP devices."""
import re
import unittest

from job import SANITIZED, few, some
from network import LOSSY, PLAIN, Cutter, Failure, Fencer, Network
from recovery_test import Base
from slow import Slower, Top

IMPATIENT = {"LOCKSTEP_HEARTBEAT_LIMIT": "1", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.1"}
CUT_OFF = r"worker:(\d) \(rank (\d), 10\.[0-9.:]+\) was lost: silent for [0-9.]+ s, cut off \(its host does not answer\)"


class Hosts(Base):
    LINK, SPARE = PLAIN, False

    @classmethod
    def setUpClass(cls):
        try:
            cls.network = cls.enterClassContext(Network(3, cls.LINK, cls.SPARE))
        except (Failure, OSError) as failure:
            raise unittest.SkipTest("there are no network namespaces with such links here: %s" % failure) from failure

    def expect_nobody_lost(self, job):
        for life in job.now():
            self.assertNotIn("was lost", life.errors(), job.describe())


class Cut(Hosts):
    def cut(self, rank, seconds, environment=None):
        cutter = Cutter(seconds)
        job = self.run_job({rank: ["sums:5:STOP"]}, hooks=[cutter], network=self.network, environment=environment)
        self.assertEqual(cutter.rank, rank)
        healed = cutter.healed
        cutter.heal(job)
        return job, healed

    def expect_named(self, job, lost, errors):
        """By the others; who is cut off itself hears nobody and says so."""
        for rank, said in enumerate(errors):
            found = re.search(CUT_OFF, said)
            self.assertIsNotNone(found, job.describe())
            self.assertEqual(found.group(1), found.group(2))
            self.assertEqual(int(found.group(1)) == lost, rank != lost, job.describe())
            self.assertEqual("this one that is cut off" in said, rank == lost, job.describe())

    def test_for_longer_than_the_limit(self):
        for rank in some((0, 1)):
            with self.subTest(rank=rank):
                job, healed = self.cut(rank, 1.8, IMPATIENT)
                self.check(job)
                self.assertTrue(healed)
                self.expect_named(job, rank, [life.errors() for life in job.now()])

    @few
    def test_for_less(self):
        job, healed = self.cut(1, 1)
        self.check(job)
        self.assertTrue(healed)
        self.expect_nobody_lost(job)

    @few
    def test_for_longer_than_the_others_wait(self):
        job, healed = self.cut(0, 60, {**IMPATIENT, "LOCKSTEP_REJOIN_TIMEOUT": "1"})
        self.assertFalse(healed)
        self.assertEqual([life.status for life in job.now()], [138] * 3, job.describe())
        for life in job.now():
            self.assertIn("LOCKSTEP_REJOIN_TIMEOUT", life.last_error())
        self.expect_named(job, 0, [life.last_error() for life in job.now()])


class Lossy(Hosts):
    """Each way takes 100 ms, and 5 % of all packets are lost."""
    LINK = LOSSY

    @few
    def test_nobody_is_lost(self):
        options = ("--units", "4", "--epochs", "1", "--limit", "96")
        job = self.run_job(options=options, network=self.network)
        self.check(job, options)
        self.expect_nobody_lost(job)


class Slow(Base):
    def test_is_told_and_not_lost(self):
        options = ("--units", "128", "--batch", "960", "--limit", "3840", "--epochs", "6" if SANITIZED else "10")
        slower, top = Slower(1, times=10, period=0.05), Top(1)
        job = self.run_job(options=options, hooks=[slower, top])
        top.end()
        self.check(job, options)
        self.assertGreater(slower.turns, 10)
        for life in job.now():
            self.assertNotIn("was lost", life.errors(), job.describe())
        named = [answer["straggler"] for answer in top.answers]
        self.assertGreater(named.count(1), len(named) / 2, named)


@few
class Fenced(Hosts):
    """A worker is frozen past the limit, replaced, and wakes when the group has gone on without it."""
    SPARE = True
    OPTIONS = ("--epochs", "60")
    LIMITS = {"LOCKSTEP_HEARTBEAT_LIMIT": "0.6", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.05", "LOCKSTEP_REJOIN_TIMEOUT": "20"}

    def fence(self, taken):
        """Worker 0, and so all, take their time until they went on without it and, where its task is free, also without its
        replacement: the training must not end before."""
        fencer = Fencer(1, taken)
        job = self.run_job({0: ["committed:5:PACE:3"], 1: ["sums:5:STOP"]}, options=self.OPTIONS, hooks=[fencer],
                           environment=self.LIMITS, network=self.network)
        self.check(job, self.OPTIONS)
        self.expect_none(fencer.faults(), job)
        return fencer

    def test_its_task_is_free_again(self):
        """It joins as new, with the state of the others."""
        self.fence(taken=False)

    def test_its_task_is_taken(self):
        """It is refused and ends, and with it neither who survives a next loss nor who comes back."""
        old = self.fence(taken=True).old
        self.assertIn("two processes say that they are worker:1 (rank 1)", old.last_error())


if __name__ == "__main__":
    unittest.main(verbosity=2)
