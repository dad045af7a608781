"""Horovod's names for TensorFlow 2, over liblockstep: import lockstep.tensorflow as hvd.

docs/python.md says which names are the same, which differ and which are missing."""
from __future__ import annotations

from .. import LockstepError
from ..features import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                        mpi_threads_supported, nccl_built, rocm_built)
from ..objects import all_gather_object as allgather_object
from ..objects import broadcast_object
from ..process import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown,
                       size, start_timeline, stop_timeline)
from .compression import Compression
from .gradients import DistributedGradientTape, DistributedOptimizer
from .ops import Average, Max, Min, Product, Sum, allgather, allreduce, alltoall, barrier, broadcast, grouped_allreduce, reducescatter
from .variables import BroadcastGlobalVariablesHook, broadcast_global_variables, broadcast_variables
