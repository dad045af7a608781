"""Horovod's reductions on TensorFlow's tensors, eager or in a graph.

In a graph each call is one tf.numpy_function, which tf.function runs in the program's order. A session of TensorFlow 1 runs ops
in any order: graph.py has its calls. XLA cannot compile them: models of Keras are compiled with jit_compile=False. Arguments
device_dense, device_sparse and ignore_name_scope have no effect."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from .. import process
from ..communicator import ADASUM, MAX, MEAN, MIN, PRODUCT, SUM, split_evenly
from ..errors import LockstepError, Status
from ..process_sets import global_process_set, process_set_by_id
from . import graph

Sum, Average, Min, Max, Product, Adasum = SUM, MEAN, MIN, MAX, PRODUCT, ADASUM


def call(function: Callable[..., List[np.ndarray]], tensors: Sequence[Any], shapes: Sequence[Any], types=None,
         name: Optional[str] = None, process_set=global_process_set) -> List[tf.Tensor]:
    """function makes calls of the process set's group, and takes and gives arrays; types and shapes are those of the results.
    Default: the types of the tensors."""
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if tf.executing_eagerly():
        return [tf.convert_to_tensor(found) for found in function(*(tensor.numpy() for tensor in tensors))]
    types = types or [tensor.dtype for tensor in tensors]
    found = graph.in_order(function, tensors, types) if graph.has_order() else \
        graph.in_any_order(function, tensors, types, name, process_set)
    for one, shape in zip(found, shapes):
        one.set_shape(shape)
    return list(found)


def rows_of(tensor: tf.Tensor) -> tf.TensorShape:
    """The shape of the tensor with any first dimension."""
    return tf.TensorShape([None]).concatenate(tensor.shape[1:])


def plain(array: Any) -> np.ndarray:
    """Contiguous, and a scalar stays one."""
    return np.ascontiguousarray(array).reshape(np.shape(array))


def chosen_op(average: Optional[bool], op: Optional[int]) -> int:
    if average is not None and op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    return op if op is not None else SUM if average is False else MEAN


# ---- All-reduce ----------------------------------------------------------------------------------------------------


def reduced(tensors: Sequence[Any], op: int, compression: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0,
            name: Optional[str] = None, process_set=global_process_set) -> List[tf.Tensor]:
    """All-reduces of dense tensors, as one call for each type."""
    if not tensors:
        return []

    def work(*arrays):
        inputs = [plain(one) for one in arrays]
        outputs = [np.empty_like(one) for one in inputs]
        process_set.communicator().all_reduce_group(inputs, outputs, op, name=name, compression=compression,
                                                    prescale=prescale, postscale=postscale)
        return outputs
    return call(work, tensors, [tensor.shape for tensor in tensors], None, name, process_set)


def allreduce(tensor, average=None, device_dense="", device_sparse="", compression=None, op=None, prescale_factor=1.0,
              postscale_factor=1.0, name=None, process_set=global_process_set, ignore_name_scope=False):
    """The reduction; gradients pass through it. tf.IndexedSlices are gathered, and added where they are used."""
    how = chosen_op(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        return sparse(tensor, how, process_set, name)
    return grouped_allreduce([tensor], None, "", "", compression, how, prescale_factor, postscale_factor, process_set,
                             name=name)[0]


def sparse(slices: tf.IndexedSlices, op: int, process_set=global_process_set, name: Optional[str] = None) -> tf.IndexedSlices:
    """The rows of all ranks; Average divides them by the number of ranks."""
    if op not in (SUM, MEAN):
        raise LockstepError(Status.INVALID_ARGUMENT, "the op of tf.IndexedSlices is Sum or Average")
    values, indices = gathered([slices.values, slices.indices], name, process_set)
    if op == MEAN:
        values /= tf.cast(process_set.size(), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def grouped_allreduce(tensors, average=None, device_dense="", device_sparse="", compression=None, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set, ignore_name_scope=False, name=None) -> List[tf.Tensor]:
    """All or none of them, in one call for each type."""
    how = chosen_op(average, op)

    @tf.custom_gradient
    def function(*xs):
        def gradient(*dys):
            return reduced(dys, how, compression, prescale_factor, postscale_factor, process_set=process_set)
        return reduced(xs, how, compression, prescale_factor, postscale_factor, name, process_set), gradient
    return list(function(*map(tf.convert_to_tensor, tensors)))


# ---- All-gather ----------------------------------------------------------------------------------------------------


def gathered(tensors: Sequence[Any], name: Optional[str], process_set) -> List[tf.Tensor]:
    """The tensors of all ranks along the first dimension, without a gradient."""
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]

    def work(*arrays):
        found = []
        for number, given in enumerate(map(np.ascontiguousarray, arrays)):
            found.append(process_set.communicator().all_gather_rows(
                given, lambda rows: np.empty((rows, *given.shape[1:]), given.dtype),
                name=name and f"{name}.{number}"))
        return found
    return call(work, tensors, [rows_of(tensor) for tensor in tensors], None, name, process_set)


def _own_rows(whole: tf.Tensor, tensor: tf.Tensor, process_set) -> tf.Tensor:
    """The rows of whole, a gathered tensor's gradient, that stand for this rank's tensor."""
    def work(all_, rows):
        group = process_set.communicator()
        counts = group.run(lambda: group.gather_counts(int(rows), group.name("rows")))
        begin = sum(counts[:group.rank])
        return [all_[begin:begin + counts[group.rank]]]
    return call(work, [whole, tf.shape(tensor)[0] if tensor.shape.rank else 1], [tensor.shape], [whole.dtype],
                process_set=process_set)[0]


def grouped_allgather(tensors, name=None, ignore_name_scope=False, process_set=global_process_set) -> List[tf.Tensor]:
    """Of each tensor those of all ranks along the first dimension, in which they may differ. The gradient is this rank's
    rows of the average over all ranks, as Horovod's."""
    @tf.custom_gradient
    def function(*xs):
        def gradient(*dys):
            return [_own_rows(whole, x, process_set) for x, whole in zip(xs, reduced(dys, MEAN, process_set=process_set))]
        return gathered(xs, name, process_set), gradient
    return list(function(*map(tf.convert_to_tensor, tensors)))


def allgather(tensor, name=None, ignore_name_scope=False, process_set=global_process_set) -> tf.Tensor:
    return grouped_allgather([tensor], name, process_set=process_set)[0]


# ---- Broadcast -----------------------------------------------------------------------------------------------------


def broadcast_all(tensors: Sequence[Any], root_rank: int, name: Optional[str] = None,
                  process_set=global_process_set) -> List[tf.Tensor]:
    """The tensors of root_rank, which is a rank of all."""
    root = process_set.place_of(root_rank)

    def work(*arrays):
        found = [np.array(one, order="C") for one in arrays]
        for number, one in enumerate(found):
            process_set.communicator().broadcast(one.reshape(-1).view(np.uint8), root, name=name and f"{name}.{number}")
        return found
    return call(work, tensors, [tensor.shape for tensor in tensors], None, name, process_set) if tensors else []


def broadcast(tensor, root_rank, name=None, ignore_name_scope=False, process_set=global_process_set) -> tf.Tensor:
    """The gradient of the root is the average over all ranks, as Horovod's; others' are zero."""
    @tf.custom_gradient
    def function(x):
        def gradient(dy):
            total = reduced([dy], MEAN, process_set=process_set)[0]
            return total if process.rank() == root_rank else tf.zeros_like(total)
        return broadcast_all([x], root_rank, name, process_set)[0], gradient
    return function(tf.convert_to_tensor(tensor))


# ---- Reduce-scatter ------------------------------------------------------------------------------------------------


def _scattered(tensors: Sequence[Any], op: int, name: Optional[str], process_set) -> List[tf.Tensor]:
    def work(*arrays):
        group, parts = process_set.communicator(), []
        for number, given in enumerate(map(np.ascontiguousarray, arrays)):
            rows, row = split_evenly(given.shape[0], group.size), int(np.prod(given.shape[1:], dtype=np.int64))
            part = np.empty((rows[group.rank], *given.shape[1:]), given.dtype)
            group.reduce_scatter(given, part, op, counts=[count * row for count in rows], name=name and f"{name}.{number}")
            parts.append(part)
        return parts
    return call(work, tensors, [rows_of(tensor) for tensor in tensors], None, name, process_set)


def grouped_reducescatter(tensors, device_dense="", compression=None, op=Average, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0, name=None) -> List[tf.Tensor]:
    """Of each tensor this rank's rows of the reduction; the first rows mod size ranks get one more. The gradient is the
    gathered gradients of all ranks; of a sum it counts the ranks, as Horovod's. Nothing is compressed."""
    @tf.custom_gradient
    def function(*xs):
        def gradient(*dys):
            factor = process_set.size() if op == SUM else 1
            return gathered([_scaled(dy, factor) for dy in dys], None, process_set)
        return _scattered(xs, op, name, process_set), gradient
    found = function(*(_scaled(tf.convert_to_tensor(tensor), prescale_factor) for tensor in tensors))
    return [_scaled(one, postscale_factor) for one in found]


def _scaled(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    return tensor if factor == 1 else tensor * tf.cast(factor, tensor.dtype)


def reducescatter(tensor, device_dense="", compression=None, op=Average, name=None, process_set=global_process_set,
                  ignore_name_scope=False, prescale_factor=1.0, postscale_factor=1.0) -> tf.Tensor:
    return grouped_reducescatter([tensor], device_dense, compression, op, process_set, prescale_factor, postscale_factor, name)[0]


# ---- All-to-all ----------------------------------------------------------------------------------------------------


def _exchanged(tensor: tf.Tensor, rows: tf.Tensor, name: Optional[str], process_set) -> List[tf.Tensor]:
    """rows[rank] rows for each rank; empty: equal parts. What came, and how many rows from each."""
    def work(one, rows):
        given, group = np.ascontiguousarray(one), process_set.communicator()
        row = int(np.prod(given.shape[1:], dtype=np.int64))
        counts = rows.tolist() or [given.shape[0] // group.size] * group.size
        if sum(counts) != given.shape[0]:
            raise LockstepError(Status.INVALID_ARGUMENT, f"splits {counts} must be {given.shape[0]} rows together")
        memory, received = group.all_to_all(given, [count * row for count in counts], name=name)
        found = np.frombuffer(memory, given.dtype).reshape(-1, *given.shape[1:]) if row else given[:0]
        return [found, np.array([count // row if row else 0 for count in received], np.int32)]
    return call(work, [tensor, rows], [rows_of(tensor), tf.TensorShape([None])], None, name, process_set)


def alltoall(tensor, splits=None, name=None, ignore_name_scope=False, process_set=global_process_set):
    """The rows that all ranks have for this one, splits[rank] of each; with splits also how many came from each."""
    rows = tf.zeros([0], tf.int32) if splits is None else tf.cast(tf.convert_to_tensor(splits), tf.int32)

    @tf.custom_gradient
    def function(x):
        output, received = _exchanged(x, rows, name, process_set)

        def gradient(dy, _):
            return _exchanged(dy, received, None, process_set)[0]
        return (output, received), gradient
    output, received = function(tf.convert_to_tensor(tensor))
    return output if splits is None else (output, received)


# ---- Barrier, join, numbers in a graph -----------------------------------------------------------------------------


def barrier(process_set=global_process_set) -> None:
    process_set.communicator().barrier()


def join() -> int:
    """Returns when all ranks have joined: the last one. Meanwhile this rank gives zeros to the others' all-reduces."""
    return process.world().join()


def _number(function: Callable[[], int]) -> tf.Tensor:
    def work():
        return [np.array(function(), np.int32)]
    if tf.executing_eagerly():
        return tf.convert_to_tensor(work()[0])
    return tf.ensure_shape(graph.in_order(work, [], [tf.int32])[0], [])


def rank_op(name=None) -> tf.Tensor:
    """rank() at the time when the graph runs."""
    return _number(process.rank)


def local_rank_op(name=None) -> tf.Tensor:
    return _number(process.local_rank)


def local_size_op(name=None) -> tf.Tensor:
    return _number(process.local_size)


def size_op(process_set_id: int = 0, name=None) -> tf.Tensor:
    return _number(lambda: process_set_by_id(process_set_id).size())


def process_set_included_op(process_set_id: int = 0, name=None) -> tf.Tensor:
    """1: this rank is in the set."""
    return _number(lambda: int(process_set_by_id(process_set_id).included()))
