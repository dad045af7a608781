"""Calls that each rank begins in an order of its own, such as those of a TensorFlow graph: they are matched by their names, as
Horovod's are, and made in one order on all ranks.

A thread of each rank meets those of the others in rounds. In a round each rank tells the names of what it has begun. What all
have begun is made then, in the order of the names. So a rank that has begun nothing is waited for, and no order is wrong."""
from __future__ import annotations

import collections
import functools
import operator
import threading
import time
from typing import Any, Callable, List

from ._calls import Pending
from .errors import LockstepError, Status

_PAUSES = 0.0001, 0.005  # seconds between rounds that found nothing: the first, and the longest


class Named:
    """The calls of one communicator. limit: seconds for which a call waits for the other ranks to begin it."""

    def __init__(self, group: Any, limit: float):
        self._group, self._limit = group, limit
        self._some = threading.Condition()
        self._waiting: List[Pending] = []
        self._ended = False
        self._pause = 0.0
        threading.Thread(target=self._work, name="lockstep-named", daemon=True).start()

    def begin(self, name: str, work: Callable[[], Any]) -> Pending:
        """work makes calls of the communicator when all ranks have begun a call of this name. Calls of one name are matched in
        the order in which they were begun."""
        pending = Pending(name, work)
        with self._some:
            if self._ended:
                raise LockstepError(Status.FAILED_PRECONDITION, f"{name}: the group is closed")
            self._waiting.append(pending)
            self._some.notify()
        return pending

    def end(self) -> None:
        with self._some:
            self._ended = True
            self._some.notify()

    # ---- The thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._await():
            try:
                self._round()
            except Exception as error:
                self._fail(error)
        self._fail(LockstepError(Status.FAILED_PRECONDITION, "the group is closed"))

    def _await(self) -> bool:
        """True: there is a call, and it is time for a round."""
        with self._some:
            self._some.wait_for(lambda: self._ended or self._waiting)
            if self._pause and not self._ended:
                self._some.wait(self._pause)
            return not self._ended

    def _round(self) -> None:
        from .objects import all_gather_object
        with self._some:
            mine = [pending.name for pending in self._waiting]
        begun = list(map(collections.Counter, all_gather_object(mine, "calls of a graph", communicator=self._group)))
        ready = sorted(functools.reduce(operator.and_, begun).elements())
        for name in ready:
            self._take(name).make()
        self._pause = 0.0 if ready else min(max(2 * self._pause, _PAUSES[0]), _PAUSES[1])
        if not ready:
            self._judge(begun)

    def _take(self, name: str) -> Pending:
        with self._some:
            found = next(pending for pending in self._waiting if pending.name == name)
            self._waiting.remove(found)
        return found

    def _judge(self, begun: List[collections.Counter]) -> None:
        with self._some:
            oldest = self._waiting[0]
        waited = time.monotonic() - oldest.since
        if waited > self._limit:
            absent = [rank for rank, names in enumerate(begun) if not names[oldest.name]]
            error = LockstepError(Status.DEADLINE_EXCEEDED, f"'{oldest.name}' was begun {waited:.0f} s ago (the limit is "
                                                            f"{self._limit:g} s), and not by ranks {absent}: their graph is another "
                                                            f"one, or they run other parts of it", self._group.rank)
            self._group.abort(str(error))
            raise error

    def _fail(self, error: Exception) -> None:
        """Nothing is made any more of what is begun: the group has failed."""
        with self._some:
            failed, self._waiting = self._waiting, []
            self._pause = 0.0
        for pending in failed:
            pending.fail(error)
