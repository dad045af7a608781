"""Horovod's DistributedGradientTape and DistributedOptimizer: gradients of all ranks, reduced by one call a type."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import tensorflow as tf

from ..errors import LockstepError, Status
from ..process_sets import global_process_set
from .ops import Adasum, Average, Sum, reduced, sparse


class Reducer:
    """How gradients are reduced. Those of local variables are not: they are divided by the number of ranks, or left."""

    def __init__(self, compression=None, sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, groups=None,
                 process_set=global_process_set, scale_local_gradients=True):
        if op not in (Average, Sum, Adasum):
            raise ValueError(f"op {op} is neither Average nor Sum nor Adasum")
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        if groups is not None and not isinstance(groups, (list, tuple)) and groups <= 0:
            raise ValueError("groups should be a non-negative integer or a list of list of tf.Variable.")
        self.compression, self.sparse_as_dense, self.op = compression, sparse_as_dense, op
        self.factor, self.process_set, self.scale_local = float(gradient_predivide_factor), process_set, scale_local_gradients
        self.local: Dict[int, Any] = {}  # variables by their ids

    def register_local(self, variable: Any) -> None:
        self.local[id(variable)] = variable

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any] = ()) -> List[Any]:
        """None stays None. variables are those of the gradients, in their order; without them all are reduced."""
        found = list(gradients)
        size = self.process_set.communicator().size
        if size == 1:
            return found
        own = {i for i, variable in enumerate(variables) if id(variable) in self.local}
        if self.sparse_as_dense:
            found = [tf.convert_to_tensor(one) if isinstance(one, tf.IndexedSlices) else one for one in found]
        dense = [i for i, one in enumerate(found) if one is not None and i not in own and not isinstance(one, tf.IndexedSlices)]
        values = reduced([tf.convert_to_tensor(found[i]) for i in dense], self.op, self.compression, 1 / self.factor,
                         self.factor, process_set=self.process_set)
        for i, value in zip(dense, values):
            found[i] = value
        for i, one in enumerate(found):
            if i in own and self.scale_local and one is not None:
                found[i] = tf.IndexedSlices(one.values / size, one.indices, one.dense_shape) \
                    if isinstance(one, tf.IndexedSlices) else one / size
            elif i not in own and isinstance(one, tf.IndexedSlices):
                found[i] = sparse(one, self.op, self.process_set)
        return found


def _groups(num_groups: int, groups: Any) -> Any:
    return groups if groups is not None else num_groups or None


def local_variables(layers: Any) -> List[Any]:
    """The variables of Horovod's local_layers: a layer, or several."""
    if layers is None:
        return []
    layers = [layers] if hasattr(layers, "trainable_weights") else list(layers)
    if not all(hasattr(layer, "trainable_weights") for layer in layers):
        raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
    return [variable for layer in layers for variable in layer.trainable_weights]


# ---- The tape ------------------------------------------------------------------------------------------------------


class _Tape:
    """The methods of a tape."""

    def register_local_source(self, source) -> None:
        """Its gradient stays this rank's own."""
        self._lockstep_reducer.register_local(source)

    def gradient(self, target, sources, output_gradients=None, use_generic_names=False, **options):
        found = super(type(self), self).gradient(target, sources, output_gradients, **options)
        reduced_ = self._lockstep_reducer(tf.nest.flatten(found), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(found, reduced_)

    def get_local_and_global_gradients(self, target, sources, output_gradients=None, use_generic_names=False):
        pairs = list(zip(sources, self.gradient(target, sources, output_gradients)))
        local = self._lockstep_reducer.local
        return [pair for pair in pairs if id(pair[0]) in local], [pair for pair in pairs if id(pair[0]) not in local]


def DistributedGradientTape(gradtape, device_dense="", device_sparse="", compression=None, sparse_as_dense=False, op=Average,
                            gradient_predivide_factor=1.0, num_groups=0, groups=None, process_set=global_process_set,
                            scale_local_gradients=True) -> tf.GradientTape:
    """The tape, whose gradient() is that of all ranks. groups have no effect: one call has all gradients of a type."""
    reducer = Reducer(compression, sparse_as_dense, op, gradient_predivide_factor, _groups(num_groups, groups), process_set,
                      scale_local_gradients)
    added = {name: value for name, value in _Tape.__dict__.items() if not name.startswith("__")}
    cls = type(type(gradtape).__name__, (type(gradtape),), added)
    made = cls.__new__(cls)
    made.__dict__.update(gradtape.__dict__)
    made._lockstep_reducer = reducer
    return made


def PartialDistributedGradientTape(gradtape, device_dense="", device_sparse="", compression=None, sparse_as_dense=False,
                                   op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None,
                                   process_set=global_process_set, local_layers=None, scale_local_gradients=True):
    """As DistributedGradientTape; the gradients of local_layers stay this rank's own."""
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression, sparse_as_dense, op,
                                   gradient_predivide_factor, num_groups, groups, process_set, scale_local_gradients)
    for variable in local_variables(local_layers):
        tape.register_local_source(variable)
    return tape


# ---- Optimizers ----------------------------------------------------------------------------------------------------


def DistributedOptimizer(optimizer, name=None, use_locking=False, device_dense="", device_sparse="", compression=None,
                         sparse_as_dense=False, backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0,
                         average_aggregated_gradients=False, num_groups=0, groups=None, process_set=global_process_set,
                         scale_local_gradients=True):
    """An optimizer of Keras 3, of tf-keras or of tf.compat.v1.train that reduces gradients before it applies them.
    backward_passes_per_step: gradients of as many steps are added, or averaged, and then reduced and applied."""
    reducer = Reducer(compression, sparse_as_dense, op, gradient_predivide_factor, _groups(num_groups, groups), process_set,
                      scale_local_gradients)
    if op == Adasum:
        raise ValueError("op == Adasum is not supported yet with optimizers; give it to DistributedGradientTape")
    passes = int(backward_passes_per_step)
    if passes < 1:
        raise ValueError("backward_passes_per_step must be > 0")
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        if passes > 1:
            raise LockstepError(Status.UNIMPLEMENTED, "backward_passes_per_step is for optimizers of Keras; an optimizer of "
                                                      "tf.compat.v1.train applies each step's gradients")
        return _with(optimizer, _V1, reducer)
    if hasattr(optimizer, "apply"):
        if passes == 1:
            return _with(optimizer, _Keras, reducer)
        if optimizer.built:
            raise LockstepError(Status.FAILED_PRECONDITION, "backward_passes_per_step wants an optimizer that has no variables "
                                                            "yet: wrap it before the model is trained")
        optimizer.gradient_accumulation_steps = passes
        made = _with(optimizer, _KerasPasses, reducer)
        object.__setattr__(made, "_lockstep_factor", 1 if average_aggregated_gradients else passes)
        return made
    if hasattr(optimizer, "apply_gradients"):
        made = _with(optimizer, _LegacyKeras, reducer)
        made._lockstep_passes = Passes(passes, average_aggregated_gradients) if passes > 1 else None
        return made
    raise ValueError("Provided optimizer doesn't inherit from either legacy TensorFlow or Keras optimizer.")


class _Local:
    def register_local_var(self, variable):
        """Its gradient stays this rank's own."""
        self._lockstep_reducer.register_local(variable)

    @classmethod
    def from_config(cls, config, **options):
        return cls.__bases__[0].from_config(config, **options)


class _V1:
    """The methods of an optimizer of tf.compat.v1.train."""
    register_local_var = _Local.register_local_var

    def compute_gradients(self, *arguments, **options):
        pairs = super(type(self), self).compute_gradients(*arguments, **options)
        variables = [variable for _, variable in pairs]
        return list(zip(self._lockstep_reducer([gradient for gradient, _ in pairs], variables), variables))


class _Keras:
    """The methods of an optimizer of Keras 3."""
    register_local_var, from_config = _Local.register_local_var, _Local.__dict__["from_config"]

    def apply(self, grads, trainable_variables=None):
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        return super(type(self), self).apply(self._lockstep_reducer(grads, variables), trainable_variables)


class _KerasPasses:
    """The methods of an optimizer of Keras 3 that adds several steps' gradients: it clips their mean in the step that
    applies them, and before that they are reduced."""
    register_local_var, from_config = _Local.register_local_var, _Local.__dict__["from_config"]

    def _backend_apply_gradients(self, grads, trainable_variables):
        object.__setattr__(self, "_lockstep_variables", trainable_variables)
        return super(type(self), self)._backend_apply_gradients(grads, trainable_variables)

    def _clip_gradients(self, grads):
        whole = [None if one is None else one * self._lockstep_factor for one in grads]
        return super(type(self), self)._clip_gradients(self._lockstep_reducer(whole, self._lockstep_variables))


class _LegacyKeras:
    """The methods of an optimizer of tf-keras (Keras 2)."""
    register_local_var, from_config = _Local.register_local_var, _Local.__dict__["from_config"]

    def apply_gradients(self, grads_and_vars, *arguments, **options):
        pairs, reducer = list(grads_and_vars), self._lockstep_reducer
        apply = super(type(self), self).apply_gradients

        def step(gradients, variables):
            return apply(list(zip(reducer(gradients, variables), variables)), *arguments, **options)
        gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
        if self._lockstep_passes is None:
            return step(gradients, variables)
        with tf.init_scope():
            self.build(variables)
        return self._lockstep_passes(gradients, variables, step)


class Passes:
    """The gradients of several steps, added up."""

    def __init__(self, passes: int, average: bool):
        self.passes, self.average = passes, average
        self.count: Optional[tf.Variable] = None
        self.sums: List[Optional[tf.Variable]] = []

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any], step: Callable[[List[Any], Sequence[Any]], Any]) -> None:
        """Calls step with the sums, or means, in each step of which the number is a multiple of passes."""
        if self.count is None:
            with tf.init_scope():
                self.count = tf.Variable(0, trainable=False)
                self.sums = [None if gradient is None else tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)
                             for gradient, variable in zip(gradients, variables)]
        for total, gradient in zip(self.sums, gradients):
            if total is not None and gradient is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        self.count.assign_add(1)
        tf.cond(tf.equal(self.count, self.passes), lambda: self._apply(variables, step), lambda: tf.no_op())

    def _apply(self, variables, step) -> Any:
        divisor = self.passes if self.average else 1
        step([None if total is None else total / divisor for total in self.sums], variables)
        for total in self.sums:
            if total is not None:
                total.assign(tf.zeros_like(total))
        self.count.assign(0)
        return tf.no_op()


def _with(optimizer: Any, methods: type, reducer: Reducer) -> Any:
    wrapped = type(optimizer)
    added = {name: value for name, value in methods.__dict__.items() if not name.startswith("__")}
    added["__module__"] = wrapped.__module__  # so that Keras writes, and finds again, the class that was wrapped
    cls = type(wrapped.__name__, (wrapped,), added)
    optimizer.__class__ = cls  # Keras tracks the object itself
    object.__setattr__(optimizer, "_lockstep_reducer", reducer)
    return optimizer
