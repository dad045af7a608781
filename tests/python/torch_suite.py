#!/usr/bin/env python3
"""torch's own tests of a backend for torch.distributed, as torch ships them, with the backend "lockstep". Tests that need a GPU
or another backend leave themselves out. LEFT_OUT names those that want what the backend does not have, and why.

usage: torch_suite.py [PATTERN]   (tests whose names match)"""
import os
import re
import sys
import tempfile
import unittest

WORLD = 3
os.environ.setdefault("BACKEND", "lockstep")
os.environ.setdefault("WORLD_SIZE", str(WORLD))
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="lockstep-suite-"))

import lockstep.torch.c10d  # registers the backend
from torch.testing._internal.common_distributed import DistTestCases
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

SELECTED = re.compile(r"test_(get_|destroy_|barrier|send_recv|isend|irecv|broadcast|reduce_|all_reduce|sparse_|scatter|gather|"
                      r"all_gather|all_to_all|DistributedDataParallelCPU|coalescing|batch_isend_irecv_op|new_subgroups|"
                      r"ddp_(uneven|comm_hook|hook_parity_allreduce|zero|sync_module|broadcast_buffer|logging_data_cpu))"
                      r"(?!.*(cuda|nccl|gpu|profiler))")
LEFT_OUT = {}


class TestLockstep(TestDistBackend, DistributedTest._DistTestBase):
    pass


def suite(pattern):
    names = unittest.defaultTestLoader.getTestCaseNames(TestLockstep)
    return unittest.TestSuite(TestLockstep(name) for name in names
                              if SELECTED.match(name) and name not in LEFT_OUT and re.search(pattern, name))


if __name__ == "__main__":
    for feature in ("ddp", "subgroup"):
        DistTestCases.backend_feature[feature].add("lockstep")
    result = unittest.TextTestRunner(verbosity=2).run(suite(sys.argv[1] if len(sys.argv) > 1 else ""))
    print(f"{result.testsRun - len(result.failures) - len(result.errors) - len(result.skipped)} passed, "
          f"{len(result.failures) + len(result.errors)} failed, {len(result.skipped)} left themselves out, "
          f"{len(LEFT_OUT)} left out")
    sys.exit(not result.wasSuccessful())
