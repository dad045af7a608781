"""Horovod's collectives on TensorFlow's tensors, eager or in a graph.

In a graph each is one tf.numpy_function, which tf.function runs in the program's order. XLA cannot compile it: models of
Keras are compiled with jit_compile=False."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from ..communicator import MAX, MEAN, MIN, PRODUCT, SUM, split_evenly
from ..errors import LockstepError, Status
from ..process import world

Sum, Average, Min, Max, Product = SUM, MEAN, MIN, MAX, PRODUCT


def _call(function: Callable[..., List[np.ndarray]], tensors: Sequence[Any], shapes: Sequence[Any]) -> List[tf.Tensor]:
    """function takes and gives arrays, one for each tensor and of its type; shapes are those of the results."""
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if tf.executing_eagerly():
        return [tf.convert_to_tensor(found) for found in function(*(tensor.numpy() for tensor in tensors))]
    found = tf.numpy_function(function, tensors, [tensor.dtype for tensor in tensors], stateful=True)
    for one, shape in zip(found, shapes):
        one.set_shape(shape)
    return list(found)


def chosen_op(average: Optional[bool], op: Optional[int]) -> int:
    if average is not None and op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    return op if op is not None else SUM if average is False else MEAN


def reduced(tensors: Sequence[Any], op: int, compression: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0,
            name: Optional[str] = None) -> List[tf.Tensor]:
    """All-reduces of dense tensors, as one call for each type."""
    if not tensors:
        return []

    def work(*arrays):
        inputs = [np.ascontiguousarray(one).reshape(np.shape(one)) for one in arrays]
        outputs = [np.empty_like(one) for one in inputs]
        world().all_reduce_group(inputs, outputs, op, name=name, compression=compression, prescale=prescale,
                                 postscale=postscale)
        return outputs
    return _call(work, tensors, [tensor.shape for tensor in tensors])


def allreduce(tensor, average=None, device_dense="", device_sparse="", compression=None, op=None, prescale_factor=1.0,
              postscale_factor=1.0, name=None):
    """The reduction; gradients pass through it. tf.IndexedSlices are gathered, and added where they are used."""
    how = chosen_op(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        return sparse(tensor, how)

    @tf.custom_gradient
    def function(x):
        def gradient(dy):
            return reduced([dy], how, compression, prescale_factor, postscale_factor)[0]
        return reduced([x], how, compression, prescale_factor, postscale_factor, name)[0], gradient
    return function(tf.convert_to_tensor(tensor))


def sparse(slices: tf.IndexedSlices, op: int) -> tf.IndexedSlices:
    """The rows of all ranks; Average divides them by the number of ranks."""
    if op not in (SUM, MEAN):
        raise LockstepError(Status.INVALID_ARGUMENT, "the op of tf.IndexedSlices is Sum or Average")
    values, indices = allgather(slices.values), allgather(slices.indices)
    if op == MEAN:
        values /= tf.cast(world().size, values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def grouped_allreduce(tensors, average=None, device_dense="", device_sparse="", compression=None, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, name=None) -> List[tf.Tensor]:
    """All or none of them, in one call for each type."""
    how = chosen_op(average, op)

    @tf.custom_gradient
    def function(*xs):
        def gradient(*dys):
            return reduced(dys, how, compression, prescale_factor, postscale_factor)
        return reduced(xs, how, compression, prescale_factor, postscale_factor, name), gradient
    return list(function(*map(tf.convert_to_tensor, tensors)))


def allgather(tensor, name=None) -> tf.Tensor:
    """The tensors of all ranks along the first dimension, in which they may differ."""
    tensor = tf.convert_to_tensor(tensor)
    rest = tensor.shape[1:]

    def work(one):
        given = np.ascontiguousarray(one)
        return [world().all_gather_rows(given, lambda rows: np.empty((rows, *given.shape[1:]), given.dtype), name=name)]
    return _call(work, [tensor], [tf.TensorShape([None]).concatenate(rest)])[0]


def broadcast_all(tensors: Sequence[Any], root_rank: int) -> List[tf.Tensor]:
    """The tensors of root_rank."""
    def work(*arrays):
        found = [np.array(one, order="C") for one in arrays]
        for one in found:
            world().broadcast(one, root_rank)
        return found
    return _call(work, tensors, [tensor.shape for tensor in tensors]) if tensors else []


def broadcast(tensor, root_rank, name=None) -> tf.Tensor:
    return broadcast_all([tf.convert_to_tensor(tensor)], root_rank)[0]


def reducescatter(tensor, op=Average, name=None) -> tf.Tensor:
    """This rank's rows of the reduction; the first rows mod size ranks get one more."""
    tensor = tf.convert_to_tensor(tensor)

    def work(one):
        given = np.ascontiguousarray(one)
        group = world()
        rows = split_evenly(given.shape[0], group.size)
        row = int(np.prod(given.shape[1:], dtype=np.int64))
        found = np.empty((rows[group.rank], *given.shape[1:]), given.dtype)
        group.reduce_scatter(given, found, op, counts=[count * row for count in rows], name=name)
        return [found]
    return _call(work, [tensor], [tf.TensorShape([None]).concatenate(tensor.shape[1:])])[0]


def alltoall(tensor, splits=None, name=None):
    """The rows that all ranks have for this one, splits[rank] of each; with splits also how many came from each."""
    tensor = tf.convert_to_tensor(tensor)
    equal = splits is None

    def work(one, rows):
        given, group = np.ascontiguousarray(one), world()
        row = int(np.prod(given.shape[1:], dtype=np.int64))
        counts = [given.shape[0] // group.size] * group.size if equal else rows.tolist()
        if sum(counts) != given.shape[0]:
            raise LockstepError(Status.INVALID_ARGUMENT, f"splits {counts} must be {given.shape[0]} rows together")
        memory, received = group.all_to_all(given, [count * row for count in counts], name=name)
        found = np.frombuffer(memory, given.dtype).reshape(-1, *given.shape[1:]) if row else given[:0]
        return [found, np.array([count // row if row else 0 for count in received], rows.dtype)]
    rows = tf.zeros([0], tf.int32) if equal else tf.cast(tf.convert_to_tensor(splits), tf.int32)
    output, received = _call(work, [tensor, rows], [tf.TensorShape([None]).concatenate(tensor.shape[1:]), tf.TensorShape([None])])
    return output if equal else (output, received)


def barrier() -> None:
    world().barrier()
