#!/usr/bin/env python3
"""Workers lost whose devices have no host memory (tests/far): gradients through host memory, with the bits of the CPU; and
by NCCL, whose group is aborted and made anew."""
import functools
import os
import re
import sys
import unittest

from job import SANITIZED, Job, JobCase, some, undisturbed

FAR = {"LOCKSTEP_PLUGIN": os.environ.get("FAR_PLUGIN", "build/tests/far/lockstep-far.so"), "LOCKSTEP_DEVICES": "gpu:0",
       "LOCKSTEP_LOG": "debug"}  # all workers say by what gradients are added
EMULATED = os.environ.get("EMULATED_PLUGIN")  # where it is built
HOST = {**FAR, "LOCKSTEP_FAR_NO_GROUP": "1"}
reference = functools.lru_cache(undisturbed)


class Far(JobCase):
    def lose(self, environment, at, wanted, options=(), workers=3):
        with self.subTest(at=at):
            job = Job(workers, options, at=at, environment=environment)
            self.addCleanup(job.folder.cleanup)
            job.start_all().finish()
            self.expect_none(job.faults(wanted), job)
            for rank, points in at.items():
                self.assertEqual(len(job.lives[rank]), 1 + len(points), job.describe())
            return job

    def test_through_host_memory(self):
        for rank, point in some(((0, "sums:5:KILL"), (1, "bucket:7:KILL"), (2, "committed:9:KILL"))):
            self.lose(HOST, {rank: [point]}, reference(3))
        self.lose(HOST, {1: ["exchange:9:KILL"]}, reference(3, "--synchronized"), ("--synchronized",))
        self.lose(HOST, {2: ["sums:11:KILL"]}, reference(3, "--pipeline"), ("--pipeline",))

    def test_in_the_node(self):
        """Two GPUs each: the node adds before the host, in each generation. AUTO has the bits of four of the CPU's."""
        two = {**HOST, "LOCKSTEP_DEVICES": "gpu:0,gpu:1"}
        for rank, point in some(((1, "bucket:7:KILL"), (0, "sums:5:KILL"))):
            job = self.lose(two, {rank: [point]}, reference(4), workers=2)
            survivor = job.lives[1 - rank][0].errors()
            self.assertEqual(survivor.count("GPUs by hierarchical copy, and then by the host"), 2, survivor)

    def test_replicas_that_share_gpus(self):
        """The worker that is left has two replicas on each of its GPUs, and nobody else to add with."""
        job = Job(2, at={1: ["sums:5:KILL"]}, restart=False, environment={
            **HOST, "LOCKSTEP_DEVICES": "gpu:0,gpu:1", "LOCKSTEP_ELASTIC": "1:2", "LOCKSTEP_REJOIN_TIMEOUT": "0"})
        self.addCleanup(job.folder.cleanup)
        job.start_all().finish()
        self.expect_none(job.faults(reference(4), (1,)), job)
        self.assertIn("gradients of 4 replicas are added between this worker's GPUs by hierarchical copy\n",
                      job.lives[0][0].errors())

    def expect_named(self, job, lost):
        for rank in {0, 1, 2} - {lost}:
            errors = job.lives[rank][0].errors()
            self.assertRegex(errors, rf"worker:{lost} \(rank {lost}, .*\) was lost: .*; waiting up to", errors)

    def by_nccl(self, environment, points):
        first = Job(3, environment=environment)
        self.addCleanup(first.folder.cleanup)
        first.start_all().finish()
        wanted = first.lives[0][-1].result()
        for rank, point in points:
            job = self.lose(environment, {rank: [point]}, wanted)
            survivor = job.lives[(rank + 1) % 3][0].errors()
            self.assertEqual(survivor.count("gradients of 3 GPUs are added by NCCL"), 2, survivor)
            self.expect_named(job, rank)

    def test_by_nccl(self):
        points = (0, "sums:5:KILL"), (1, "bucket:7:KILL"), (2, "committed:9:KILL")
        self.by_nccl(FAR, some(points))

    def test_nccl_that_works_once(self):
        """Training goes on with the host, and those who know the generation before say that it is another order."""
        job = Job(3, at={1: ["bucket:7:KILL"]}, environment={**FAR, "LOCKSTEP_FAR_GROUPS": "1"})
        self.addCleanup(job.folder.cleanup)
        job.start_all().finish()
        self.assertEqual([life.status for life in job.now()], [0, 0, 0], job.describe())
        said = "added otherwise than in the generation before ('nccl 2.28.9' then, 'host' now)"
        for rank, count in ((0, 1), (1, 0), (2, 1)):
            errors = job.lives[rank][-1].errors()
            self.assertEqual(errors.count(said), count, errors)

    @unittest.skipIf(SANITIZED or not EMULATED, "emulated GPUs are slow, or not there")
    def test_workers_with_different_nccl(self):
        versions = [{"LOCKSTEP_EMULATED_NCCL_VERSION": version} for version in ("22809", "23107")]
        job = Job(2, environment={**FAR, "LOCKSTEP_PLUGIN": EMULATED}, task_environment=versions.__getitem__)
        self.addCleanup(job.folder.cleanup)
        for life in job.start_all().finish().now():
            self.assertEqual(life.status, 0, job.describe())
            self.assertIn("are added by the host: rank 0 has NCCL 2.28.9 and rank 1 has 2.31.7", life.errors())

    def left_behind(self, environment):
        """No abort ends: the survivors go on all the same, and all processes end."""
        first = Job(3, environment=environment)
        self.addCleanup(first.folder.cleanup)
        job = self.lose(environment, {1: ["bucket:7:KILL"]}, first.start_all().finish().lives[0][-1].result())
        for rank in (0, 2):
            errors = job.lives[rank][0].errors()
            said = re.findall(rf"rank {rank}: NCCL has not aborted its communicator for (2\.\d) s: it is left", errors)
            self.assertEqual(len(said), 2, errors)  # after the loss, and at the end
            self.assertEqual(errors.count("gradients of 3 GPUs are added by NCCL"), 2, errors)

    def test_an_abort_that_never_ends(self):
        self.left_behind({**FAR, "LOCKSTEP_FAR_ABORT_STUCK": "1"})

    @unittest.skipIf(SANITIZED or not EMULATED, "emulated GPUs are slow, or not there")
    def test_an_abort_that_never_ends_on_emulated_gpus(self):
        self.left_behind({**FAR, "LOCKSTEP_PLUGIN": EMULATED, "LOCKSTEP_EMULATED_NCCL_STUCK": "1"})

    @unittest.skipIf(SANITIZED or not EMULATED, "emulated GPUs are slow, or not there")
    def test_nccl_hears_of_a_loss_before_the_cluster(self):
        """Within a second the cluster has its name. Then NCCL's own words have to do."""
        for delay in (500, 2500):
            job = Job(3, environment={**FAR, "LOCKSTEP_PLUGIN": EMULATED})
            self.addCleanup(job.folder.cleanup)
            job.start(0)
            job.start(1, environment={"LOCKSTEP_EMULATED_NCCL_DIES": f"9,{delay}"})
            job.start(2)
            job.finish()
            self.assertEqual([life.status for life in job.now()], [0, 0, 0], job.describe())
            self.assertEqual(len(job.lives[1]), 2, job.describe())
            if delay < 1000:
                self.expect_named(job, 1)
            else:
                self.assertIn("between the GPUs: remote process exited or there was a network error; waiting up to",
                              job.lives[0][0].errors(), job.describe())

    @unittest.skipIf(SANITIZED or not EMULATED, "emulated GPUs are slow, or not there")
    def test_emulated_gpus(self):
        self.by_nccl({**FAR, "LOCKSTEP_PLUGIN": EMULATED}, [(1, "bucket:7:KILL")])
        two = {"LOCKSTEP_PLUGIN": EMULATED, "LOCKSTEP_EMULATED_NCCL_FAILS": "1", "LOCKSTEP_DEVICES": "gpu:0,gpu:1"}
        short = ("--epochs", "2")
        whole = Job(2, short, environment=two)
        self.addCleanup(whole.folder.cleanup)
        whole.start_all().finish()
        self.lose(two, {1: ["bucket:7:KILL"]}, whole.lives[0][-1].result(), short, workers=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[1:])
