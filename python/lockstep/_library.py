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


def _address(thing):
    """Of memory: an object of _arrays.array or torch.memory, one of ctypes, bytes, or an address alone."""
    if thing is None or isinstance(thing, int):
        return thing
    if isinstance(thing, bytes):
        return ctypes.cast(thing, c_void_p).value
    return thing._as_parameter_ if hasattr(thing, "_as_parameter_") else ctypes.addressof(thing)


def _addresses(things):
    return (c_void_p * len(things))(*map(_address, things))


def _sizes(counts):
    if isinstance(counts, ctypes.Array):
        return counts
    numbers = list(counts)
    return (c_size_t * len(numbers))(*numbers)


def _op(op):
    if isinstance(op, int):
        return op
    raise LockstepError(Status.INVALID_ARGUMENT, f"op is {op!r}: give Sum, Average, Min, Max, Product or Adasum of the module "
                                                 "(SUM, MEAN, MIN, MAX, PRODUCT or ADASUM of lockstep)")


_SIZES = POINTER(c_size_t)
_KINDS = {"input": c_void_p, "output": c_void_p, "data": c_void_p, "inputs": POINTER(c_void_p), "outputs": POINTER(c_void_p),
          "counts": _SIZES, "received": _SIZES, "count": c_size_t, "array_count": c_size_t, "allocated": POINTER(c_void_p),
          "prescale": c_double, "postscale": c_double}  # of fields; others are int
_READERS = {"input": _address, "output": _address, "data": _address, "inputs": _addresses, "outputs": _addresses,
            "counts": _sizes, "received": _sizes, "op": _op}


class Options(Structure):
    """The struct of a call as its macro in collectives.h fills it: the first fields in their order, and any others by name;
    zero means the default. It holds the objects whose memory it points to."""
    FIELDS: tuple = ()

    def __init__(self, name: bytes, *values, **named):
        self.given = dict(zip(self.FIELDS, values), **named)
        super().__init__(ctypes.sizeof(self), name, **{field: _READERS[field](value) if field in _READERS else value
                                                       for field, value in self.given.items()})


def _options(name: str, fields: str):
    order = tuple(fields.split())
    return type(name, (Options,), {"FIELDS": order, "_fields_": [("size", c_size_t), ("name", c_char_p)] + [
        (field, _KINDS.get(field, c_int)) for field in order]})


AllReduce = _options("AllReduce", "input output count dtype op compression prescale postscale inputs outputs counts array_count")
Broadcast = _options("Broadcast", "data count dtype root allocated received")
AllGather = _options("AllGather", "input output counts dtype count allocated received")
ReduceScatter = _options("ReduceScatter", "input output counts dtype op")
AllToAll = _options("AllToAll", "input counts allocated received dtype")
Send = _options("Send", "data count dtype to")
Receive = _options("Receive", "data count dtype source")

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
    "ls_all_reduce": (_status, [_comm, POINTER(AllReduce)]),
    "ls_broadcast": (_status, [_comm, POINTER(Broadcast)]),
    "ls_all_gather": (_status, [_comm, POINTER(AllGather)]),
    "ls_reduce_scatter": (_status, [_comm, POINTER(ReduceScatter)]),
    "ls_all_to_all": (_status, [_comm, POINTER(AllToAll)]),
    "ls_send": (_status, [_comm, POINTER(Send)]),
    "ls_receive": (_status, [_comm, POINTER(Receive)]),
    "ls_try_receive": (_status, [_comm, POINTER(Receive), c_int, POINTER(c_bool)]),
    "ls_barrier": (_status, [_comm, c_char_p]),
    "ls_cross_rank": (c_int, [_comm]),
    "ls_cross_size": (c_int, [_comm]),
    "ls_is_homogeneous": (c_bool, [_comm]),
    "ls_communicator_subset": (_status, [_comm, POINTER(c_int), c_int, POINTER(c_void_p)]),
    "ls_memory_free": (None, [c_void_p]),
    "ls_communicator_negotiate": (_status, [_comm]),
    "ls_all_reduce_begin": (_status, [_comm, POINTER(AllReduce), POINTER(c_void_p)]),
    "ls_pending_done": (c_bool, [c_void_p]),
    "ls_pending_wait": (_status, [c_void_p, c_double]),
    "ls_pending_free": (None, [c_void_p]),
    "ls_timeline_start": (_status, [_comm, c_char_p]),
    "ls_timeline_stop": (_status, [_comm]),
    "ls_join": (_status, [_comm, POINTER(c_int)]),
}


def need_held(function: str, arguments: tuple) -> None:
    """Refuses addresses: the caller of a call that was begun may be gone, and its arrays with it, before the call ends."""
    given = arguments[0].given if arguments and isinstance(arguments[0], Options) else {}
    for field in ("input", "output", "data"):
        if isinstance(given.get(field), int):
            raise LockstepError(Status.INVALID_ARGUMENT, f"{field} of {function} is an address alone: give the object that holds "
                                                         f"the memory, such as that of _arrays.array")


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
                        "libprotobuf-c1, libcjson1, libdnnl2, libssl3, libjpeg62-turbo, libpng16-16 and libpcre2-8-0")


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
