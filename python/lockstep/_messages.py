"""Messages between two ranks that are begun: torch's isend and irecv.

A thread of their own sends what is to be sent, in its order, and takes what has come for any receive that waits. So a receive
holds up nothing but later ones of its rank and name. They are those of a process set of all ranks, beside other calls."""
from __future__ import annotations

import ctypes
import os
import select
import threading
import time
from typing import Any, Callable, List, Optional

from ._calls import Pending
from ._library import Receive, Send
from .errors import LockstepError, Status

Then = Callable[[Optional[BaseException]], None]


class _Receive(Pending):
    """A receive that may be tried again and again."""

    def __init__(self, name: str, source: int, attempt: Callable[[int], bool], then: Optional[Then]):
        super().__init__(name, lambda: None, then)
        self.key = (source, name)
        self.own = False
        self._attempt: Optional[Callable[[int], bool]] = attempt

    def attempt(self, wake: int) -> bool:
        """True: it has ended. Waits, as ls_try_receive, until wake can be read; -1: not at all."""
        try:
            if not self._attempt(wake):
                return False
        except BaseException as error:  # whoever waits gets it
            self.error = error
        self._end()
        return True

    def _end(self) -> None:
        self._attempt = None  # and the memory that it holds
        super()._end()


class Messages:
    """The messages of one group, which is a process set: no other calls are made in it. limit: seconds that a receive waits for
    a message of this rank to itself."""

    def __init__(self, group: Any, limit: float):
        self._group, self._limit = group, limit
        self._lock = threading.Lock()
        self._sends: List[Pending] = []
        self._new: List[_Receive] = []
        self._receives: List[_Receive] = []  # the thread's own
        self._ended = False
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ring, False)
        self._thread = threading.Thread(target=self._work, name="lockstep-messages", daemon=True)
        self._thread.start()

    def send(self, name: str, to: int, dtype: int, memory: Any, count: int, then: Optional[Then] = None) -> Pending:
        pending = Pending(name, lambda: self._group.direct("ls_send", Send(name.encode(), memory, count, dtype, to)), then)
        return self._post(self._sends, pending)

    def receive(self, name: str, source: int, dtype: int, memory: Any, count: int, finish: Callable[[], Any],
                then: Optional[Then] = None) -> Pending:
        """finish is called when the message is in memory."""
        def attempt(wake: int) -> bool:
            received = ctypes.c_bool()
            self._group.direct("ls_try_receive", Receive(name.encode(), memory, count, dtype, source), wake, ctypes.byref(received))
            if received:
                finish()
            return received.value
        pending = _Receive(name, source, attempt, then)
        pending.own = source == self._group.rank
        return self._post(self._new, pending)

    def end(self, timeout: float = 10) -> None:
        """Sends what is to be sent; receives that wait fail. The caller has aborted the group if a send would wait."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._wake()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _post(self, posts: List[Any], pending: Any) -> Any:
        with self._lock:
            if self._ended:
                raise LockstepError(Status.FAILED_PRECONDITION, f"{pending.name}: the group is closed")
            posts.append(pending)
            self._wake()
        return pending

    def _wake(self) -> None:
        """Under the lock: the thread closes the pipe when it has ended."""
        try:
            os.write(self._ring, b"x")
        except BlockingIOError:  # the thread has not read those before
            pass

    # ---- The thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._ended or self._sends:
            self._silence()
            with self._lock:
                sends, self._sends[:] = list(self._sends), []
                self._receives += self._new
                self._new.clear()
            for pending in sends:
                pending.make()
            if not self._take() and not self._ended:
                self._rest()
        for pending in (*self._receives, *self._new):
            pending.fail(LockstepError(Status.FAILED_PRECONDITION, f"{pending.name}: the group is closed"))
        with self._lock:
            os.close(self._bell)
            os.close(self._ring)

    def _silence(self) -> None:
        try:
            os.read(self._bell, 4096)
        except BlockingIOError:
            pass

    def _first(self) -> List[_Receive]:
        """The oldest receive of each rank and name."""
        found: dict = {}
        for pending in self._receives:
            found.setdefault(pending.key, pending)
        return list(found.values())

    def _take(self) -> bool:
        """True: a message that was waited for has come."""
        ended = {id(pending) for pending in self._first() if pending.attempt(-1)}
        self._receives = [pending for pending in self._receives if id(pending) not in ended]
        return bool(ended)

    def _rest(self) -> None:
        """Waits until a message comes or the bell rings."""
        awaited = next((pending for pending in self._receives if not pending.own), None)
        if awaited is not None:
            if awaited.attempt(self._bell):
                self._receives.remove(awaited)
            return
        oldest = self._receives[0] if self._receives else None
        left = None if oldest is None else max(oldest.since + self._limit - time.monotonic(), 0)
        if not select.select([self._bell], [], [], left)[0] and oldest is not None:
            self._receives.remove(oldest)
            oldest.fail(LockstepError(Status.DEADLINE_EXCEEDED, f"receive '{oldest.name}': this rank has sent itself no such "
                                                                f"message in {self._limit:g} s", self._group.rank))
