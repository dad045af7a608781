"""Horovod's elastic state: what is lost with a rank is at most what came after the last commit.

    state = ObjectState(epoch=0)
    @run
    def train(state):
        while state.epoch < 10:
            ...
            state.epoch += 1
            state.commit()
    train(state)

When a rank is lost the others keep their processes, and wait for the one that is started anew (lockstep run --restart 1,
docs/recovery.md). All go back to the last commit; who has no state, or an older one, gets it from who is furthest."""
from __future__ import annotations

import copy
import functools
from typing import Any, Callable, Iterable, List

from .errors import LockstepError
from .objects import all_gather_object, broadcast_object
from .process import world

HorovodInternalError = LockstepError


class State:
    """What is committed, restored and shared. A kind of state has save, restore and sync_from."""

    def __init__(self):
        self._commits = 0
        self._callbacks: List[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Called after each recovery, before training goes on: the number of ranks may be another one."""
        self._callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self.reset()
        for callback in self._callbacks:
            callback()

    def reset(self) -> None:
        """After a recovery, before the callbacks."""

    def commit(self) -> None:
        """The present state is the one to which a loss goes back. After the same step on all ranks."""
        self.save()
        self._commits += 1

    def check_host_updates(self) -> None:
        """Without effect: new hosts are not looked for."""

    def sync(self) -> None:
        """Everybody takes the state of who is furthest; the first rank's at the start."""
        commits = all_gather_object(self._commits, "elastic.commits")
        root = commits.index(max(commits))
        self.sync_from(root)
        self._commits = commits[root]
        self.save()

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync_from(self, root: int) -> None:
        raise NotImplementedError


class ObjectState(State):
    """Attributes of any kind that can be pickled."""

    def __init__(self, **attributes: Any):
        super().__init__()
        self._saved = copy.deepcopy(attributes)
        self.__dict__.update(attributes)

    def save(self) -> None:
        self._saved = {name: copy.deepcopy(self.__dict__[name]) for name in self._saved}

    def restore(self) -> None:
        self.__dict__.update(copy.deepcopy(self._saved))

    def sync_from(self, root: int) -> None:
        if self._saved:
            self.__dict__.update(broadcast_object({name: self.__dict__[name] for name in self._saved}, root, "elastic.objects"))


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    """function(state, ...) is called again after each loss, with the state of the last commit."""
    @functools.wraps(function)
    def wrapper(state: State, *arguments: Any, **options: Any) -> Any:
        lost = False
        while True:
            try:
                if lost:
                    state.restore()
                    state.on_reset()
                lost = False
                state.sync()
                return function(state, *arguments, **options)
            except LockstepError as error:
                if not world().recover(error):
                    raise
                lost = True
    return wrapper
