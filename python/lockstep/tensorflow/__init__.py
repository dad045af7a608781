"""Horovod's names for TensorFlow 2, over liblockstep: import lockstep.tensorflow as hvd.

docs/python.md says which names are the same, which differ and which are missing."""
from __future__ import annotations

from .. import LockstepError
from .._absent import INSIDE, SCRIPT, absent
from ..features import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                        mpi_threads_supported, nccl_built, rocm_built)
from ..process import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown,
                       size, start_timeline, stop_timeline)
from ..process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from . import elastic
from .compression import Compression
from .elastic import HorovodInternalError
from .functions import allgather_object, broadcast_object, broadcast_object_fn
from .gradients import DistributedGradientTape, DistributedOptimizer, PartialDistributedGradientTape
from .ops import (Adasum, Average, Max, Min, Product, Sum, allgather, allreduce, alltoall, barrier, broadcast,
                  grouped_allgather, grouped_allreduce, grouped_reducescatter, join, local_rank_op, local_size_op,
                  process_set_included_op, rank_op, reducescatter, size_op)
from .sync_batch_norm import SyncBatchNormalization
from .variables import BroadcastGlobalVariablesHook, broadcast_, broadcast_global_variables, broadcast_variables

__getattr__ = absent(__name__, {
    "check_extension": f"{INSIDE}; is_initialized() and lockstep.version() say what there is",
    "check_num_rank_power_of_2": f"{INSIDE}; test size() & (size() - 1)",
    "gpu_available": f"{INSIDE}; use tf.config.list_physical_devices('GPU')",
    "handle_average_backwards_compatibility": f"{INSIDE}; give op=Average or op=Sum",
    "LocalGradientAggregationHelper": f"{INSIDE}; give DistributedOptimizer backward_passes_per_step",
    "MirroredStrategy": SCRIPT,
    "mpi_ops": "its names are in lockstep.tensorflow itself",
    "MultiWorkerMirroredStrategy": SCRIPT,
    "refs_to_vars": f"{INSIDE}; use [ref.deref() for ref in refs]",
    "split_list": f"{INSIDE}; gradients need no groups here",
    "vars_to_refs": f"{INSIDE}; use [variable.ref() for variable in variables]",
})
