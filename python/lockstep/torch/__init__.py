"""Horovod's names for torch, over liblockstep: import lockstep.torch as hvd.

docs/python.md says which names are the same, which differ and which are missing."""
from __future__ import annotations

from .. import LockstepError
from .._absent import INSIDE, absent
from ..features import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                        mpi_threads_supported, nccl_built, rocm_built)
from ..process_sets import (ProcessSet, add_process_set, global_process_set, process_set_by_id, process_set_ids,
                            remove_process_set)
from ..process import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown,
                     size, start_timeline, stop_timeline)
from . import elastic
from .elastic import HorovodInternalError
from .compression import Compression
from .functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from .handles import Handle, poll, synchronize
from .ops import (Adasum, Average, Max, Min, Product, Sum, allgather, allgather_async, allreduce, allreduce_,
                  allreduce_async, allreduce_async_, alltoall, alltoall_async, barrier, broadcast, broadcast_,
                  broadcast_async, broadcast_async_, grouped_allgather, grouped_allgather_async, grouped_allreduce,
                  grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_, grouped_reducescatter,
                  grouped_reducescatter_async, join, reducescatter, reducescatter_async, sparse_allreduce_async)
from .optimizer import DistributedOptimizer
from .sync_batch_norm import SyncBatchNorm

__getattr__ = absent(__name__, {
    "check_extension": f"{INSIDE}; is_initialized() and lockstep.version() say what there is",
    "mpi_ops": "its names are in lockstep.torch itself",
})
