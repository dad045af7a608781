"""Calls in graphs. tf.function runs them in the program's order, which is alike on all ranks. A session of TensorFlow 1 runs ops
that do not depend on each other in any order, on each rank in another one: there a call has a name, from the tensor's, and the
ranks match calls by their names, as Horovod does (_named.py).

Such a call is begun by one op, and taken by another one when it is done. Between them is a loop that asks. No op waits: it would
hold a thread of the session, and with as many calls as threads the others would never be begun. For the same reason the loop
naps in tf.data, whose iterators wait in threads of their own."""
from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from .._calls import Pending

_NAP = 500  # microseconds between two questions

_tickets: Dict[int, Pending] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


def has_order() -> bool:
    """True: the graph is that of a tf.function of TensorFlow 2."""
    with tf.init_scope():
        return tf.executing_eagerly()


def in_order(function: Callable[..., List[np.ndarray]], tensors: Sequence[tf.Tensor], types: Sequence[Any]) -> List[tf.Tensor]:
    return list(tf.numpy_function(function, tensors, types, stateful=True))


def in_any_order(function: Callable[..., List[np.ndarray]], tensors: Sequence[tf.Tensor], types: Sequence[Any],
                 name: Optional[str], process_set: Any) -> List[tf.Tensor]:
    called = _name(name or tensors[0].name)

    def begin(*arrays):
        group = process_set.communicator()
        if group.size == 1:
            pending = Pending(called, lambda: function(*arrays))
            pending.make()
        else:
            pending = group.named.begin(called, lambda: function(*arrays))
        with _lock:
            ticket = next(_numbers)
            _tickets[ticket] = pending
        return np.int64(ticket)

    def goes_on(ticket):
        return np.bool_(not _tickets[int(ticket)].done())

    def take(ticket):
        with _lock:
            pending = _tickets.pop(int(ticket))
        return pending.wait()
    begun = tf.ensure_shape(tf.numpy_function(begin, tensors, tf.int64, stateful=True), [])
    naps = _naps()

    def nap(ticket):
        with tf.control_dependencies([naps.get_next()]):
            return tf.identity(ticket)
    done = tf.while_loop(lambda ticket: tf.ensure_shape(tf.numpy_function(goes_on, [ticket], tf.bool, stateful=True), []),
                         nap, [begun], parallel_iterations=1)
    return in_order(take, [done[0] if isinstance(done, (list, tuple)) else done], types)


def _naps() -> Any:
    """An iterator without end, of which each element takes a nap."""
    numbers = tf.data.Dataset.range(1).repeat()
    slow = tf.raw_ops.SleepDataset(input_dataset=tf.data.experimental.to_variant(numbers), sleep_microseconds=_NAP,
                                   output_types=[tf.int64], output_shapes=[[]])
    return tf.compat.v1.data.make_one_shot_iterator(tf.data.experimental.from_variant(slow, numbers.element_spec))


def _name(base: str) -> str:
    """Unique in the whole graph, and alike on all ranks that make the graph alike."""
    with tf.init_scope():
        return tf.compat.v1.get_default_graph().unique_name(base)
