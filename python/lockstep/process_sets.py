"""Horovod's process sets: some of the ranks as a group of their own. Set 0 is all ranks.

All ranks add the same sets in the same order. Ranks in the set are numbered in the order given; roots of calls stay ranks
of all."""
from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Union

from . import _arrays
from .communicator import Communicator
from .errors import LockstepError, NotInitializedError, Status
from .process import world


class ProcessSet:
    """Ranks of a group to be; add_process_set makes it."""

    def __init__(self, ranks: Optional[Sequence[int]] = None):
        self.ranks: Optional[List[int]] = None if ranks is None else [int(rank) for rank in ranks]
        self.process_set_id: Optional[int] = 0 if ranks is None else None
        self._group: Optional[Communicator] = None
        self._parent: Optional[Communicator] = None

    def communicator(self) -> Communicator:
        """The group; an error where this rank is not in it."""
        if self.ranks is None:
            return world()
        if self.process_set_id is None or self._parent is not world():
            raise NotInitializedError(f"the process set of ranks {self.ranks} was not added; call add_process_set")
        if self._group is None:
            raise LockstepError(Status.INVALID_ARGUMENT, f"rank {world().rank} is not in the process set of ranks {self.ranks}")
        return self._group

    def included(self) -> bool:
        """True: this rank is in the set."""
        return self.ranks is None or world().rank in self.ranks

    def rank(self) -> int:
        return self.communicator().rank

    def size(self) -> int:
        return world().size if self.ranks is None else len(self.ranks)

    def place_of(self, rank: int) -> int:
        """The number within the set of a rank of all."""
        if self.ranks is None:
            return rank
        if rank not in self.ranks:
            raise _arrays.refuse(f"root {rank} is not in the process set of ranks {self.ranks}")
        return self.ranks.index(rank)

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks if self.ranks is not None else 'all'})"


global_process_set = ProcessSet()
_sets: Dict[int, ProcessSet] = {}


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Makes the group. All ranks call it alike, those that are not in it too."""
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    parent = world()
    if made.ranks is None:
        raise _arrays.refuse("the set of all ranks is there from the start")
    if any(other.ranks == made.ranks for other in _of(parent).values()):
        raise _arrays.refuse(f"a process set of ranks {made.ranks} was added before")
    made._group = parent.subset(made.ranks)
    made._parent = parent
    made.process_set_id = 1 + max(_of(parent), default=0)
    _sets[made.process_set_id] = made
    return made


def _of(parent: Communicator) -> Dict[int, ProcessSet]:
    """The sets of the present group; those of one that was shut down are gone."""
    for number in [number for number, made in _sets.items() if made._parent is not parent]:
        del _sets[number]
    return _sets


def remove_process_set(process_set: ProcessSet) -> bool:
    """Closes the group; all ranks call it alike. False: there is no such set."""
    number = process_set.process_set_id
    if not number or _of(world()).get(number) is not process_set:
        return False
    del _sets[number]
    process_set.process_set_id = None
    if process_set._group is not None:
        process_set._group.close()
        process_set._group = None
    return True


def process_set_ids() -> List[int]:
    return [0, *sorted(_of(world()))]


def process_set_by_id(number: int) -> ProcessSet:
    if number == 0:
        return global_process_set
    found = _of(world()).get(number)
    if found is None:
        raise _arrays.refuse(f"there is no process set {number}")
    return found


def register(process_sets: Sequence[Union[ProcessSet, Sequence[int]]]) -> None:
    """The process sets of init."""
    for process_set in process_sets:
        add_process_set(process_set)
