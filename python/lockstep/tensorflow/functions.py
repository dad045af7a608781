"""Horovod's exchange of Python's objects, with its arguments session and process_set. A session has no effect."""
from __future__ import annotations

from typing import Any, Callable, List, Optional

from .. import objects
from ..process_sets import global_process_set


def broadcast_object(obj: Any = None, root_rank: int = 0, session=None, name: Optional[str] = None,
                     process_set=global_process_set) -> Any:
    """The object of root_rank on every rank, pickled."""
    return objects.broadcast_object(obj, process_set.place_of(root_rank), name, communicator=process_set.communicator())


def broadcast_object_fn(root_rank: int = 0, session=None, name: Optional[str] = None,
                        process_set=global_process_set) -> Callable[[Any], Any]:
    """broadcast_object of the object that it is given."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(obj: Any, session=None, name: Optional[str] = None, process_set=global_process_set) -> List[Any]:
    """The objects of all ranks, pickled."""
    return objects.all_gather_object(obj, name, communicator=process_set.communicator())
