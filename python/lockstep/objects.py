"""Python's objects between ranks, pickled: Horovod's broadcast_object and allgather_object.

Only ranks of one job exchange them. Whoever can join the job can run code in it (docs/security.md)."""
from __future__ import annotations

import ctypes
import pickle
from typing import Any, List, Optional

from . import _arrays
from ._library import AllGather, Broadcast
from .communicator import Communicator
from .process import world

try:
    import cloudpickle as _dumper  # functions and classes of a script too, where it is installed
except ImportError:
    _dumper = pickle


def _dump(thing: Any) -> bytes:
    return _dumper.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)


def broadcast_object(thing: Any = None, root_rank: int = 0, name: Optional[str] = None, *,
                     communicator: Optional[Communicator] = None) -> Any:
    """The object of rank root_rank, on every rank; there it is the object itself."""
    group = communicator or world()
    called = group.name("broadcast_object", name)
    data = _dump(thing) if group.rank == root_rank else b""

    def work():
        count = ctypes.c_int64(len(data))
        group.direct("ls_broadcast", Broadcast(called + b".size", count, 1, _arrays.INT64, root_rank))
        buffer = ctypes.create_string_buffer(data, count.value + 1) if group.rank == root_rank else \
            ctypes.create_string_buffer(count.value + 1)
        group.direct("ls_broadcast", Broadcast(called, buffer, count.value, _arrays.UINT8, root_rank))
        return memoryview(buffer)[:count.value]
    found = group.run(work)
    return thing if group.rank == root_rank else pickle.loads(found)


def all_gather_object(thing: Any, name: Optional[str] = None, *,
                      communicator: Optional[Communicator] = None) -> List[Any]:
    """The objects of all ranks, in rank order."""
    group = communicator or world()
    called = group.name("all_gather_object", name)
    data = _dump(thing)

    def work():
        counts = group.gather_counts(len(data), called)
        buffer = ctypes.create_string_buffer(sum(counts) + 1)
        group.direct("ls_all_gather", AllGather(called, data, buffer, counts, _arrays.UINT8))
        return memoryview(buffer), counts
    found, counts = group.run(work)
    begins = [sum(counts[:rank]) for rank in range(len(counts))]
    return [pickle.loads(found[begin:begin + count]) for begin, count in zip(begins, counts)]
