"""Horovod's DistributedGradientTape and DistributedOptimizer: gradients of all ranks, reduced by one call a type."""
from __future__ import annotations

from typing import Any, List, Sequence

import tensorflow as tf

from ..errors import LockstepError, Status
from ..process import world
from .ops import Average, Sum, reduced, sparse


class Reducer:
    """How gradients are reduced."""

    def __init__(self, compression=None, sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0):
        if op not in (Average, Sum):
            raise ValueError(f"op {op} is neither Average nor Sum")
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        self.compression, self.sparse_as_dense, self.op = compression, sparse_as_dense, op
        self.factor = float(gradient_predivide_factor)

    def __call__(self, gradients: Sequence[Any]) -> List[Any]:
        """None stays None."""
        found = list(gradients)
        if world().size == 1:
            return found
        if self.sparse_as_dense:
            found = [tf.convert_to_tensor(one) if isinstance(one, tf.IndexedSlices) else one for one in found]
        dense = [i for i, one in enumerate(found) if one is not None and not isinstance(one, tf.IndexedSlices)]
        values = reduced([tf.convert_to_tensor(found[i]) for i in dense], self.op, self.compression, 1 / self.factor, self.factor)
        for i, value in zip(dense, values):
            found[i] = value
        return [sparse(one, self.op) if isinstance(one, tf.IndexedSlices) else one for one in found]


def DistributedGradientTape(gradtape, device_dense="", device_sparse="", compression=None, sparse_as_dense=False, op=Average,
                            gradient_predivide_factor=1.0) -> tf.GradientTape:
    """The tape, whose gradient() is that of all ranks."""
    reducer = Reducer(compression, sparse_as_dense, op, gradient_predivide_factor)

    class Distributed(type(gradtape)):
        def gradient(self, target, sources, output_gradients=None, **options):
            found = super().gradient(target, sources, output_gradients, **options)
            flat = tf.nest.flatten(found)
            return tf.nest.pack_sequence_as(found, reducer(flat))
    made = Distributed.__new__(Distributed)
    made.__dict__.update(gradtape.__dict__)
    return made


def DistributedOptimizer(optimizer, name=None, use_locking=False, device_dense="", device_sparse="", compression=None,
                         sparse_as_dense=False, backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0):
    """An optimizer of Keras, or of tf.compat.v1.train, that reduces gradients before it applies them."""
    if backward_passes_per_step != 1:
        raise LockstepError(Status.UNIMPLEMENTED, "backward_passes_per_step is not there in lockstep.tensorflow; an optimizer of "
                                                  "Keras has gradient_accumulation_steps")
    reducer = Reducer(compression, sparse_as_dense, op, gradient_predivide_factor)
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _with(optimizer, _V1, reducer)
    if hasattr(optimizer, "apply"):
        return _with(optimizer, _Keras, reducer)
    raise ValueError("Provided optimizer doesn't inherit from either legacy TensorFlow or Keras optimizer.")


class _V1:
    """The methods of an optimizer of tf.compat.v1.train."""

    def compute_gradients(self, *arguments, **options):
        pairs = super(type(self), self).compute_gradients(*arguments, **options)
        return list(zip(self._lockstep_reducer([gradient for gradient, _ in pairs]), [variable for _, variable in pairs]))


class _Keras:
    """The methods of an optimizer of Keras 3."""

    def apply(self, grads, trainable_variables=None):
        return super(type(self), self).apply(self._lockstep_reducer(grads), trainable_variables)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls.__bases__[0].from_config(config)


def _with(optimizer: Any, methods: type, reducer: Reducer) -> Any:
    wrapped = type(optimizer)
    added = {name: value for name, value in methods.__dict__.items() if not name.startswith("__")}
    cls = type(wrapped.__name__, (wrapped,), added)
    optimizer.__class__ = cls  # Keras tracks the object itself
    object.__setattr__(optimizer, "_lockstep_reducer", reducer)
    return optimizer
