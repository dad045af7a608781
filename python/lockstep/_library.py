"""liblockstep by ctypes: where it is, and one table of its functions.

ctypes.CDLL releases the GIL for the time of each call. The library is looked for in this order: LOCKSTEP_LIBRARY, the
package's own folder (a wheel), the system."""
from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p)

from .errors import LockstepError, Status

VERSION = "0.1"  # the series of liblockstep whose functions the table has

REQUEST_FN = CFUNCTYPE(c_int, c_void_p)


class StrategyOptions(Structure):
    """ls_strategy_options; zero means the default."""
    _fields_ = [("size", c_size_t), ("devices", c_char_p), ("cross_device_ops", c_int), ("communication", c_int),
                ("bytes_per_pack", c_size_t), ("timeout_seconds", c_double), ("join_timeout_seconds", c_double),
                ("tf_config", c_char_p), ("threads_per_replica", c_int), ("elastic", c_char_p), ("log", c_void_p),
                ("log_context", c_void_p), ("compression", c_int), ("request", c_void_p), ("request_context", c_void_p)]


class AllReduceOptions(Structure):
    """ls_all_reduce_options."""
    _fields_ = [("size", c_size_t), ("compression", c_int), ("prescale", c_double), ("postscale", c_double)]


class Memory(c_void_p):
    """An argument that is memory which a call reads or writes. A call that goes on behind its caller is given an object
    that holds the memory, and not an address (need_held)."""


class Memories:
    """The memory of several objects as one argument, void *[]; it holds them."""
    __slots__ = ("_held", "_addresses")

    def __init__(self, held: list):
        self._held, self._addresses = held, (c_void_p * len(held))(*[one._as_parameter_ for one in held])

    @classmethod
    def from_param(cls, given: "Memories"):
        return given._addresses


_comm, _status = c_void_p, c_int
# name: (result, arguments). A function that this library lacks is an error when it is called.
FUNCTIONS = {
    "ls_version": (c_char_p, []),
    "ls_error": (c_char_p, []),
    "ls_dtype_size": (c_size_t, [c_int]),
    "ls_communicator_new": (_status, [POINTER(StrategyOptions), POINTER(c_void_p)]),
    "ls_communicator_close": (_status, [_comm, c_int]),
    "ls_communicator_abort": (_status, [_comm, c_char_p]),
    "ls_communicator_recover": (c_bool, [_comm, POINTER(c_int)]),
    "ls_communicator_transport": (c_char_p, [_comm]),
    "ls_communicator_allocate": (_status, [_comm, c_size_t, POINTER(c_void_p)]),
    "ls_communicator_release": (None, [_comm, c_void_p]),
    "ls_rank": (c_int, [_comm]),
    "ls_size": (c_int, [_comm]),
    "ls_local_rank": (c_int, [_comm]),
    "ls_local_size": (c_int, [_comm]),
    "ls_all_reduce": (_status, [_comm, c_char_p, c_int, c_int, Memory, Memory, c_size_t]),
    "ls_all_reduce_with": (_status, [_comm, c_char_p, c_int, c_int, POINTER(AllReduceOptions), Memory, Memory,
                                     c_size_t]),
    "ls_all_reduce_group": (_status, [_comm, c_char_p, c_int, c_int, POINTER(AllReduceOptions), Memories,
                                      Memories, POINTER(c_size_t), c_size_t]),
    "ls_broadcast": (_status, [_comm, c_char_p, c_int, c_int, Memory, c_size_t]),
    "ls_all_gather": (_status, [_comm, c_char_p, c_int, Memory, POINTER(c_size_t), Memory]),
    "ls_reduce_scatter": (_status, [_comm, c_char_p, c_int, c_int, Memory, POINTER(c_size_t), Memory]),
    "ls_barrier": (_status, [_comm, c_char_p]),
    "ls_cross_rank": (c_int, [_comm]),
    "ls_cross_size": (c_int, [_comm]),
    "ls_is_homogeneous": (c_bool, [_comm]),
    "ls_communicator_subset": (_status, [_comm, POINTER(c_int), c_int, POINTER(c_void_p)]),
    "ls_all_to_all": (_status, [_comm, c_char_p, c_int, Memory, POINTER(c_size_t), POINTER(c_void_p), POINTER(c_size_t)]),
    "ls_send": (_status, [_comm, c_char_p, c_int, c_int, Memory, c_size_t]),
    "ls_receive": (_status, [_comm, c_char_p, c_int, c_int, Memory, c_size_t]),
    "ls_try_receive": (_status, [_comm, c_char_p, c_int, c_int, Memory, c_size_t, c_int, POINTER(c_bool)]),
    "ls_memory_free": (None, [c_void_p]),
    "ls_communicator_negotiate": (_status, [_comm]),
    "ls_all_reduce_begin": (_status, [_comm, c_char_p, c_int, c_int, POINTER(AllReduceOptions), Memory, Memory, c_size_t,
                                      POINTER(c_void_p)]),
    "ls_all_reduce_group_begin": (_status, [_comm, c_char_p, c_int, c_int, POINTER(AllReduceOptions), Memories,
                                            Memories, POINTER(c_size_t), c_size_t, POINTER(c_void_p)]),
    "ls_pending_done": (c_bool, [c_void_p]),
    "ls_pending_wait": (_status, [c_void_p, c_double]),
    "ls_pending_free": (None, [c_void_p]),
    "ls_timeline_start": (_status, [_comm, c_char_p]),
    "ls_timeline_stop": (_status, [_comm]),
    "ls_join": (_status, [_comm, POINTER(c_int)]),
}
# name: the places of memory among the arguments behind the communicator.
_MEMORY = {name: [place - 1 for place, kind in enumerate(arguments) if kind is Memory]
           for name, (_, arguments) in FUNCTIONS.items()}


def need_held(function: str, arguments: tuple) -> None:
    """Refuses addresses: the caller of a call that was begun may be gone, and its arrays with it, before the call ends."""
    for place in _MEMORY[function]:
        if isinstance(arguments[place], int):
            raise LockstepError(Status.INVALID_ARGUMENT, f"argument {place + 2} of {function} is an address alone: give the "
                                                         f"object that holds the memory, such as that of _arrays.array")


def _candidates():
    named = os.environ.get("LOCKSTEP_LIBRARY")
    if named:
        yield named
        return
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "liblockstep.so.0")
    if os.path.exists(own):
        yield own
        return
    yield "liblockstep.so.0"
    found = ctypes.util.find_library("lockstep")
    if found:
        yield found


def _open() -> ctypes.CDLL:
    faults = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as fault:
            faults.append(str(fault))
    raise LockstepError(Status.NOT_FOUND,
                        "liblockstep cannot be loaded: " + "; ".join(faults) + ". Install it (docs/install.md), or set "
                        "LOCKSTEP_LIBRARY to the path of liblockstep.so.0. It needs Debian's packages libgrpc29, "
                        "libprotobuf-c1, libcjson1, libdnnl2, libssl3, libjpeg62-turbo and libpng16-16")


class Library:
    """The loaded library; its functions are attributes."""

    def __init__(self):
        self._cdll = _open()
        self.ls_version  # a library without it is none of ours
        version = self.version
        if not version.startswith(VERSION + "."):
            raise LockstepError(Status.FAILED_PRECONDITION,
                                f"liblockstep is version {version}, and this package is for {VERSION}: install both from one "
                                f"source, or set LOCKSTEP_LIBRARY to a library of that version")

    @property
    def version(self) -> str:
        return self.ls_version().decode()

    def has(self, name: str) -> bool:
        return hasattr(self._cdll, name)

    def __getattr__(self, name: str):
        if name not in FUNCTIONS:
            raise AttributeError(name)
        try:
            function = getattr(self._cdll, name)
        except AttributeError:
            version = self._cdll.ls_version
            version.restype = c_char_p
            raise LockstepError(Status.UNIMPLEMENTED,
                                f"liblockstep {version().decode()} has no {name}: install a newer one") from None
        function.restype, function.argtypes = FUNCTIONS[name]
        setattr(self, name, function)
        return function


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """The library, loaded once, at the first use."""
    return Library()


def error_text() -> str:
    """The message of this thread's last failed call."""
    return library().ls_error().decode(errors="replace")
