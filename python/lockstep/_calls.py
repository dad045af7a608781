"""The calls of a communicator: one at a time, in the order in which they were begun.

A call that nobody else waits for runs in the caller's thread. Calls that were begun without waiting run in one thread, in
their order; a later blocking call waits behind them."""
from __future__ import annotations

import collections
import threading
import time
from typing import Any, Callable, Optional, Tuple

from .errors import LockstepError, Status


class Pending:
    """A call that was begun. Its result is there when it is done. The queue holds it until then, and with it the function
    and the memory that the call reads and writes: whoever drops a Pending drops no memory."""

    def __init__(self, name: str, function: Callable[[], Any], then: Optional[Callable[[Optional[BaseException]], None]] = None):
        """then is called at the end, by the thread that makes the call, with its error or None."""
        self.name, self._then = name, then
        self._function: Optional[Callable[[], Any]] = function
        self._done = threading.Event()
        self._result: Any = None
        self.since = time.monotonic()
        self.error: Optional[BaseException] = None  # of a call that has failed

    def make(self) -> None:
        """Makes the call, in the thread whose turn it is."""
        try:
            self._result = self._function()
        except BaseException as error:  # whoever waits gets it
            self.error = error
        self._end()

    def fail(self, error: BaseException) -> None:
        """The call is not made any more."""
        self.error = error
        self._end()

    def _end(self) -> None:
        then, self._then = self._then, None
        self._function = None  # and the arrays that it holds
        self._done.set()
        if then is not None:
            then(self.error)

    def done(self, timeout: float = 0) -> bool:
        """True: it is done, or was within timeout seconds."""
        return self._done.wait(timeout)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """The call's result; its error is raised here. timeout in seconds; None: the call's own deadline is the limit."""
        if not self._done.wait(timeout):
            raise LockstepError(Status.DEADLINE_EXCEEDED, f"{self.name} is not done after {timeout:g} s")
        if self.error is not None:
            raise self.error
        return self._result


class Calls:
    """The queue of one communicator."""

    def __init__(self):
        self._one = threading.Lock()  # held by the thread that is in a call
        self._some = threading.Condition()
        self._waiting: collections.deque = collections.deque()
        self._names: set = set()
        self._outstanding = 0
        self._thread: Optional[threading.Thread] = None
        self._ended = False

    @property
    def idle(self) -> bool:
        return not self._outstanding

    def run(self, function: Callable[..., Any], name: str = "call", arguments: Tuple = ()) -> Any:
        """Calls function after all that was begun before, and returns its result."""
        if self._outstanding:
            return self.begin(name, lambda: function(*arguments), once=False).wait()
        with self._one:
            return function(*arguments)

    def run_where(self, thread: int, function: Callable[[], Any]) -> Any:
        """As run, in the thread of begun calls if that is the one named: the library keeps the last error by thread."""
        if self._thread and self._thread.ident == thread:
            return self.begin("call", function, once=False).wait()
        return self.run(function)

    def begin(self, name: str, function: Callable[[], Any], once: bool = True,
              then: Optional[Callable[[Optional[BaseException]], None]] = None) -> Pending:
        """Puts function behind all that was begun before. once: an outstanding call of the same name is an error."""
        pending = Pending(name, function, then)
        with self._some:
            if once and name in self._names:
                raise LockstepError(Status.ALREADY_EXISTS,
                                    f"a call named '{name}' is outstanding; wait for it, or give this one another name")
            if self._ended:
                raise LockstepError(Status.FAILED_PRECONDITION, f"{name}: the group is closed")
            if not self._thread:
                self._thread = threading.Thread(target=self._work, name="lockstep-calls", daemon=True)
                self._thread.start()
            self._names.add(name)
            self._waiting.append(pending)
            self._outstanding += 1
            self._some.notify()
        return pending

    def _next(self) -> Optional[Pending]:
        with self._some:
            while not self._waiting and not self._ended:
                self._some.wait()
            return self._waiting.popleft() if self._waiting else None

    def _work(self) -> None:
        while True:
            pending = self._next()
            if pending is None:
                return
            with self._one:
                pending.make()
            with self._some:
                self._outstanding -= 1
                self._names.discard(pending.name)
            del pending

    def end(self, timeout: float = 10) -> None:
        """Lets the outstanding calls end, and then the thread. The caller has aborted the group if they would wait."""
        with self._some:
            self._ended = True
            self._some.notify_all()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(timeout)
