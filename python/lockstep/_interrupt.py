"""Ctrl-C while the main thread waits in a call of the library.

Python runs its handler of SIGINT only when the call returns. So a thread hears of the signal by the wake-up descriptor and
aborts the group: the call returns at once, and the handler raises KeyboardInterrupt. The others' calls end too, and
say who was interrupted. A handler of the program's own is left alone: it runs when the call returns."""
from __future__ import annotations

import os
import signal
import threading
import time
from typing import Callable, Optional

_POLL = 0.02  # seconds: the signal may come just before the call
_STUCK = 1.0  # seconds after which the main thread waits in other code for a thread that is in a call


class _Watch:
    def __init__(self):
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._handled = threading.Event()
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._abort: Callable[[], None] = lambda: None
        signal.signal(signal.SIGINT, self._handle)
        threading.Thread(target=self._listen, name="lockstep-signals", daemon=True).start()

    def _handle(self, number, frame):
        self._handled.set()
        signal.default_int_handler(number, frame)

    def _listen(self) -> None:
        while True:
            numbers = os.read(self._read, 64)
            if not numbers:
                return
            if self._before >= 0:
                try:
                    os.write(self._before, numbers)
                except OSError:
                    pass
            if signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) == self._handle:
                self._end_calls()

    def _end_calls(self) -> None:
        begun = time.monotonic()
        while not self._handled.wait(_POLL):
            if _main_calls or (_other_calls and time.monotonic() - begun > _STUCK):
                self._abort()
        self._handled.clear()


_watch: Optional[_Watch] = None
_main_calls = 0  # calls of the library in which the main thread is
_other_calls = 0  # and of other threads; the lock guards it
_lock = threading.Lock()
_main = threading.main_thread().ident


def in_call(function, *arguments):
    """Calls function, and lets Ctrl-C end it when this is the main thread."""
    global _main_calls
    if threading.get_ident() != _main:
        return _beside(function, *arguments)
    _main_calls += 1
    try:
        return function(*arguments)
    finally:
        _main_calls -= 1


def _beside(function, *arguments):
    global _other_calls
    with _lock:
        _other_calls += 1
    try:
        return function(*arguments)
    finally:
        with _lock:
            _other_calls -= 1


def watch(abort: Callable[[], None]) -> None:
    """From now on Ctrl-C calls abort where the main thread is in a call. The main thread sets it up; in another thread,
    or where the program has its own handler, nothing is changed."""
    global _watch
    if threading.get_ident() != _main:
        return
    if _watch is None:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        _watch = _Watch()
    _watch._abort = abort


def forked() -> None:
    """In a child of fork: the watching thread is the parent's, and so is the pipe."""
    global _watch, _main_calls, _other_calls, _lock, _main
    _main_calls, _other_calls, _lock, _main = 0, 0, threading.Lock(), threading.main_thread().ident
    if _watch is None:
        return
    if signal.getsignal(signal.SIGINT) == _watch._handle:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.set_wakeup_fd(-1)
    os.close(_watch._read)
    os.close(_watch._write)
    _watch = None
