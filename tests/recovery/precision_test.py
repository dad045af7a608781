#!/usr/bin/env python3
"""Workers lost that train in float16 on emulated GPUs: who comes back has the loss scale too, and counts alike."""
import sys
import unittest

from job import Job, JobCase, some

OPTIONS = ("--half", "--limit", "512")
GPU = {"LOCKSTEP_DEVICES": "gpu:0"}
NAMES = ("steps", "weights_sha256", "outputs", "skipped_steps", "loss_scale")


class Precision(JobCase):
    def run_job(self, at=None):
        job = Job(2, OPTIONS, at=at, environment=GPU)
        self.addCleanup(job.folder.cleanup)
        job.start_all().finish()
        return job

    def test_the_scale_comes_back(self):
        wanted = self.run_job().lives[0][-1].result()
        self.assertGreater(wanted["skipped_steps"], 1)
        for rank, point in some(((0, "sums:14:KILL"), (1, "committed:20:KILL"))):
            with self.subTest(point=point):
                job = self.run_job({rank: [point]})
                self.expect_none(job.faults(wanted), job)
                self.assertEqual(len(job.lives[rank]), 2, job.describe())
                for lives in job.lives.values():
                    result = lives[-1].result()
                    self.assertEqual([result[name] for name in NAMES], [wanted[name] for name in NAMES])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[1:])
