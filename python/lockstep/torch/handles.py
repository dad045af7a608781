"""Handles of the asynchronous calls: poll and synchronize."""
from __future__ import annotations

from typing import Any, Callable, Optional

from .._calls import Pending
from ..communicator import Communicator


class Handle:
    """A call that was begun. finish makes the result of synchronize of what the call returned."""

    def __init__(self, pending: Pending, finish: Callable[[Any], Any]):
        self.pending = pending
        self._finish: Optional[Callable[[Any], Any]] = finish
        self._value: Any = None

    def result(self) -> Any:
        found = self.pending.wait()
        if self._finish is not None:
            self._value, self._finish = self._finish(found), None
        return self._value


class Call:
    """A collective call as two functions: work makes it, in any thread; finish is called by who waits. It is run, or
    begun."""

    def __init__(self, group: Communicator, name: bytes, work: Callable[[], Any], finish: Callable[[Any], Any],
                 native: Any = None):
        self.group, self.name, self.work, self.finish = group, name, work, finish
        self.native = native  # the options of an all-reduce that the library can begin

    def run(self) -> Any:
        return self.finish(self.group.run(self.work))

    def begin(self) -> Handle:
        if self.native and self.group.negotiates:
            return Handle(self.group.begin_native(self.native), self.finish)
        return Handle(self.group.begin(self.name.decode(), self.work), self.finish)


def poll(handle: Handle) -> bool:
    """True: the call is done, and synchronize will not wait."""
    return handle.pending.done()


def synchronize(handle: Handle) -> Any:
    """Waits for the call and returns its result; its error is raised here."""
    return handle.result()
