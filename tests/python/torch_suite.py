#!/usr/bin/env python3
"""torch's own tests of a backend for torch.distributed, as torch ships them, with the backend "lockstep". Tests that need a GPU
or another backend leave themselves out.

usage: torch_suite.py [PATTERN]   (tests whose names match)"""
import os
import re
import sys
import tempfile
import unittest

WORLD = 2  # tests of groups of three leave themselves out
os.environ.setdefault("BACKEND", "lockstep")
os.environ.setdefault("WORLD_SIZE", str(WORLD))
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="lockstep-suite-"))

import lockstep.torch.c10d  # registers the backend
from torch.testing._internal.common_distributed import DistTestCases

DistTestCases.skip_collective["sendrecv anysource"].add("lockstep")  # recv needs a rank; read by the next import
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

SELECTED = re.compile(r"test_(get_|destroy_|barrier|send_recv|isend|irecv|broadcast|reduce_|all_reduce|sparse_|scatter|gather|"
                      r"all_gather|all_to_all|DistributedDataParallelCPU|coalescing|batch_isend_irecv_(op|gloo)|new_subgroups|"
                      r"ddp_(uneven|comm_hook|hook_parity_allreduce|zero|sync_module|broadcast_buffer|logging_data_cpu))"
                      r"(?!.*(cuda|nccl|gpu|profiler))")

for name in ("test_batch_isend_irecv_gloo", "test_batch_isend_irecv_gloo_tags"):  # they say gloo, and ask nothing of it
    getattr(DistributedTest._DistTestBase, name).__unittest_skip__ = False


class TestLockstep(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()


def suite(pattern):
    names = unittest.defaultTestLoader.getTestCaseNames(TestLockstep)
    return unittest.TestSuite(TestLockstep(name) for name in names
                              if SELECTED.match(name) and re.search(pattern, name))


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=2).run(suite(sys.argv[1] if len(sys.argv) > 1 else ""))
    print(f"{result.testsRun - len(result.failures) - len(result.errors) - len(result.skipped)} passed, "
          f"{len(result.failures) + len(result.errors)} failed, {len(result.skipped)} left themselves out")
    sys.exit(not result.wasSuccessful())
