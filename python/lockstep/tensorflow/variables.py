"""Horovod's broadcasts of variables: eager, and in TensorFlow 1's graphs."""
from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from ..process_sets import global_process_set
from .ops import broadcast_all


def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set=global_process_set, inplace=False) -> Any:
    """The variables of TensorFlow or Keras become those of root_rank. In TensorFlow 1's graphs: the operation that does."""
    variables = list(variables)
    found = broadcast_all(variables, root_rank, process_set=process_set)
    assigned = [variable.assign(value) for variable, value in zip(variables, found)]
    return None if tf.executing_eagerly() else tf.group(*assigned)


def broadcast_(variables: Sequence[Any], root_rank: int, name=None, process_set=global_process_set) -> Sequence[Any]:
    """As broadcast_variables; the variables."""
    variables = list(variables)
    found = broadcast_all(variables, root_rank, name, process_set)
    return [variable.assign(value) for variable, value in zip(variables, found)]


def broadcast_global_variables(root_rank: int) -> Any:
    """All global variables of TensorFlow 1's graph."""
    if tf.executing_eagerly():
        raise RuntimeError("hvd.broadcast_global_variables() does not support eager execution. Please use "
                           "`hvd.broadcast_variables(<model/optimizer variables>)` instead.")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


def optimizer_variables(optimizer: Any) -> Sequence[Any]:
    """Those of an optimizer of Keras 3, or of tf-keras, where they may be a function."""
    found = optimizer.variables
    return list(found if isinstance(found, (list, tuple)) else found())


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """For MonitoredTrainingSession and Estimator: the global variables become those of root_rank at the start."""

    def __init__(self, root_rank: int, device: str = ""):
        self.root_rank = root_rank
        self._operation: Any = None

    def begin(self) -> None:
        if self._operation is None or self._operation.graph != tf.compat.v1.get_default_graph():
            self._operation = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session, coord) -> None:
        session.run(self._operation)
