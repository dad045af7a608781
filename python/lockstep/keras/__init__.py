"""Horovod's names for Keras on TensorFlow, over liblockstep: import lockstep.keras as hvd. Keras is that of tf.keras: Keras
3, or tf-keras where TF_USE_LEGACY_KERAS=1.

docs/python.md says which names are the same, which differ and which are missing."""
from __future__ import annotations

from typing import Any

import tensorflow as tf

from .. import LockstepError
from ..features import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                        mpi_threads_supported, nccl_built, rocm_built)
from ..process import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown,
                       size, start_timeline, stop_timeline)
from ..process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ..tensorflow import ops as _ops
from ..tensorflow.compression import Compression
from ..tensorflow.functions import allgather_object, broadcast_object
from ..tensorflow.gradients import DistributedOptimizer, local_variables
from ..tensorflow.ops import Adasum, Average, Max, Min, Product, Sum
from ..tensorflow.variables import broadcast_global_variables, broadcast_variables
from . import callbacks, elastic


def PartialDistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="", compression=Compression.none,
                                sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average, backward_passes_per_step=1,
                                average_aggregated_gradients=False, groups=None, process_set=global_process_set,
                                local_layers=None, scale_local_gradients=True):
    """As DistributedOptimizer; the gradients of local_layers, which are built, stay this rank's own."""
    made = DistributedOptimizer(optimizer, name, False, device_dense, device_sparse, compression, sparse_as_dense,
                                backward_passes_per_step, op, gradient_predivide_factor, average_aggregated_gradients,
                                0, groups, process_set, scale_local_gradients)
    for variable in local_variables(local_layers):
        made.register_local_var(variable)
    return made


def allreduce(value: Any, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None,
              compression=Compression.none) -> Any:
    """The reduction as NumPy's array."""
    return _ops.allreduce(value, average=average, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                          name=name, compression=compression).numpy()


def allgather(value: Any, name=None) -> Any:
    return _ops.allgather(value, name).numpy()


def broadcast(value: Any, root_rank: int, name=None) -> Any:
    return _ops.broadcast(value, root_rank, name).numpy()


def reducescatter(value: Any, name=None, op=Average) -> Any:
    return _ops.reducescatter(value, name=name, op=op).numpy()


def load_model(filepath: str, custom_optimizers=None, custom_objects=None, compression=Compression.none,
               legacy_opts=False) -> Any:
    """keras.models.load_model; the model's optimizer becomes a DistributedOptimizer."""
    known = {cls.__name__: cls for cls in custom_optimizers or ()}
    model = tf.keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if model.optimizer is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model

