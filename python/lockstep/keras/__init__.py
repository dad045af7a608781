"""Horovod's names for Keras 3 on TensorFlow, over liblockstep: import lockstep.keras as hvd.

docs/python.md says which names are the same, which differ and which are missing."""
from __future__ import annotations

from typing import Any

import keras

from .. import LockstepError
from ..features import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                        mpi_threads_supported, nccl_built, rocm_built)
from ..objects import all_gather_object as allgather_object
from ..objects import broadcast_object
from ..process import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown,
                       size, start_timeline, stop_timeline)
from ..tensorflow.compression import Compression
from ..tensorflow.gradients import DistributedOptimizer
from ..tensorflow.ops import Average, Max, Min, Product, Sum
from ..tensorflow import ops as _ops
from ..tensorflow.variables import broadcast_global_variables, broadcast_variables
from . import callbacks


def allreduce(value: Any, name=None, average=None, op=None, prescale_factor=1.0, postscale_factor=1.0) -> Any:
    """The reduction as NumPy's array."""
    return _ops.allreduce(value, average=average, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                          name=name).numpy()


def allgather(value: Any, name=None) -> Any:
    return _ops.allgather(value, name).numpy()


def broadcast(value: Any, root_rank: int, name=None) -> Any:
    return _ops.broadcast(value, root_rank, name).numpy()


def load_model(filepath: str, custom_objects=None, compression=Compression.none) -> Any:
    """keras.saving.load_model; the model's optimizer becomes a DistributedOptimizer."""
    model = keras.saving.load_model(filepath, custom_objects=custom_objects)
    if model.optimizer is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
