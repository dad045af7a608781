"""Lockstep: collectives between processes, on Python's memory, over liblockstep.

    import array, lockstep
    lockstep.init()                                   # the group of TF_CONFIG; lockstep run -np 2 -- python3 script.py
    numbers = array.array("f", [lockstep.rank()] * 4)
    lockstep.all_reduce(numbers, lockstep.MEAN)       # in place
    lockstep.shutdown()

lockstep.torch has Horovod's names for torch. docs/python.md says what there is."""
from __future__ import annotations

from typing import Any, Optional

from ._calls import Pending
from .communicator import ADASUM, MAX, MEAN, MIN, PRODUCT, SUM, Communicator, split_evenly
from .objects import all_gather_object, broadcast_object
from .errors import LockstepError, NotInitializedError, Status
from .process import (init, is_initialized, local_rank, local_size, rank, shutdown, size, start_timeline, stop_timeline, version,
                      world)

__version__ = "0.1.0"


def all_reduce(array: Any, op: int = SUM, **options: Any) -> Any:
    """Communicator.all_reduce of the group of init."""
    return world().all_reduce(array, op, **options)


def broadcast(array: Any, root: int = 0, **options: Any) -> Any:
    """Communicator.broadcast of the group of init."""
    return world().broadcast(array, root, **options)


def all_gather(array: Any, output: Any, **options: Any) -> Any:
    """Communicator.all_gather of the group of init."""
    return world().all_gather(array, output, **options)


def reduce_scatter(array: Any, output: Any, op: int = SUM, **options: Any) -> Any:
    """Communicator.reduce_scatter of the group of init."""
    return world().reduce_scatter(array, output, op, **options)


def barrier(name: Optional[str] = None) -> None:
    """Communicator.barrier of the group of init."""
    world().barrier(name)
