"""A group of processes and its collectives on Python's memory: ls_communicator of lockstep.h.

Every call is collective: all ranks make the same calls in the same order with the same name, type, count and op; a
difference is one named error on each rank. Arrays are anything with the buffer protocol, __array_interface__ or DLPack in
host memory, contiguous, and are used in place."""
from __future__ import annotations

import collections
import ctypes
import itertools
import os
import threading
import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple

from . import _arrays, _interrupt
from ._calls import Calls, Pending
from ._messages import Messages
from ._named import Named
from ._library import (AllGather, AllReduce, AllToAll, Broadcast, Options, Receive, ReduceScatter, Send, StrategyOptions, error_text,
                       library, need_held)
from .errors import LockstepError, NotInitializedError, Status

# ls_reduce_op
SUM, MEAN, MIN, MAX, PRODUCT, ADASUM = range(6)
_COMMUNICATIONS = {"auto": 0, "ring": 1}
_COMPRESSIONS = {None: 0, "none": 0, "fp16": 1, "bf16": 2}


def scaling(compression: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0) -> dict:
    """These fields of an all-reduce."""
    if compression not in _COMPRESSIONS:
        raise _arrays.refuse(f"compression '{compression}' is none of none, fp16, bf16")
    if not prescale or not postscale:
        raise _arrays.refuse(f"prescale {prescale:g} and postscale {postscale:g} must not be 0")
    return {"compression": _COMPRESSIONS[compression], "prescale": prescale, "postscale": postscale}


_open: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


def split_evenly(count: int, parts: int) -> List[int]:
    """Horovod's division of a reduce-scatter: the first count mod parts get one more."""
    return [count // parts + (part < count % parts) for part in range(parts)]


class Communicator:
    """The processes of TF_CONFIG, or this one alone without it. Joins when it is made: waits, naming who is missing,
    until all are there. timeout: seconds of one collective; join_timeout: seconds of the start; elastic: "MIN:MAX" workers
    may go on after a loss. negotiate, alike on all ranks: calls are matched by their names, and join is there; each call
    takes a round more, and there are no sets and messages."""

    def __init__(self, *, communication: str = "auto", timeout: float = 0, join_timeout: float = 0,
                 tf_config: Optional[str] = None, elastic: Optional[str] = None, negotiate: bool = False):
        self._prepare(timeout)
        if communication not in _COMMUNICATIONS:
            raise _arrays.refuse(f"communication '{communication}' is none of {', '.join(_COMMUNICATIONS)}")
        options = StrategyOptions(size=ctypes.sizeof(StrategyOptions), communication=_COMMUNICATIONS[communication],
                                  timeout_seconds=timeout, join_timeout_seconds=join_timeout,
                                  tf_config=tf_config and tf_config.encode(), elastic=elastic and elastic.encode())
        handle = ctypes.c_void_p()
        self._check(_interrupt.in_call(self._lib.ls_communicator_new, ctypes.byref(options), ctypes.byref(handle)))
        self._adopt(handle)
        if negotiate:
            self.call("ls_communicator_negotiate")
            self.negotiates = True
        mine = weakref.ref(self)
        _interrupt.watch(lambda: mine() and mine().abort("Ctrl-C (SIGINT)"))

    def _prepare(self, timeout: float) -> None:
        self._handle: Optional[ctypes.c_void_p] = None
        self._pid = os.getpid()
        self._rank: Optional[int] = None
        self._failure: Optional[LockstepError] = None
        self._counters: dict = collections.defaultdict(lambda: itertools.count(1))
        self.negotiates = False
        self._calls = Calls()
        self._begun: "collections.deque[Begun]" = collections.deque()  # held until they have ended, whoever drops them
        self._making = threading.Lock()  # of the next one
        self._named: Optional[Named] = None
        self._messages: Optional[Messages] = None
        self._timeout = timeout
        self._sets: "weakref.WeakSet[Communicator]" = weakref.WeakSet()
        self._lib = library()

    def _adopt(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._rank = self.rank
        _open.add(self)

    # ---- The handle --------------------------------------------------------------------------------------------

    def _check(self, status: int) -> None:
        if status:
            self._failure = LockstepError(status, error_text(), self._rank)
            raise self._failure

    def take_failure(self) -> Optional[LockstepError]:
        """The last call's error, once: for code that has hidden it, such as a graph of TensorFlow."""
        failure, self._failure = self._failure, None
        return failure

    def check_process(self) -> None:
        """Refuses a child of fork."""
        if self._pid != os.getpid():
            raise NotInitializedError(f"this process was forked from rank {self._rank} (process {self._pid}) and is no "
                                      f"member of the group: a child of fork, such as a DataLoader's worker, must make "
                                      f"no collective calls")

    def _need(self) -> ctypes.c_void_p:
        if self._handle is None:
            self.check_process()
            raise NotInitializedError("the group is closed; call init() again, or make a new Communicator")
        return self._handle

    def _function(self, name: str) -> Callable:
        """A function of the library on this handle that raises; made once."""
        found = self.__dict__.get(name)
        if found is None:
            function = getattr(self._lib, name)

            def found(*arguments):
                self._check(_interrupt.in_call(function, self._need(), *arguments))
            self.__dict__[name] = found
        return found

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function of the library by name with plain arguments, in the order of the calls that were begun."""
        self._need()
        self._calls.run(self._function(function), function, arguments)

    def run(self, work: Callable[[], Any]) -> Any:
        """Runs work, which makes collective calls by direct(), behind all calls that were begun before, and waits."""
        self._need()
        return self._calls.run(work, "run")

    def begin(self, name: str, work: Callable[[], Any], then: Optional[Callable[[Optional[BaseException]], None]] = None) -> Pending:
        """Runs work, which makes collective calls by direct(), behind all calls that were begun before. Whoever drops what
        it returns drops no memory: the queue holds work, and work the objects that it gives to direct(). then: as Pending's."""
        self._need()
        return self._calls.begin(name, work, then=then)

    @property
    def idle(self) -> bool:
        """True: no call that was begun is outstanding, so that the next one is made at once."""
        return self._calls.idle

    @property
    def named(self) -> "Named":
        """Calls that each rank begins in an order of its own."""
        with self._making:
            if self._named is None:
                self._named = Named(self, self._limit)
            return self._named

    def open_messages(self) -> Optional[Messages]:
        """Messages that are begun, for all ranks that call it alike; None where there are none: with negotiate."""
        if self._messages is None and not self.negotiates:
            self._messages = Messages(self.subset(range(self.size)), self._limit)
        return self._messages

    @property
    def _limit(self) -> float:
        return self._timeout or float(os.environ.get("LOCKSTEP_COLLECTIVE_TIMEOUT") or 300)

    def direct(self, function: str, *arguments: Any) -> None:
        """As call, from within the work of begin. Memory is given as objects that hold it, which work then holds too."""
        need_held(function, arguments)
        self._function(function)(*arguments)

    def name(self, kind: str, name: Optional[str] = None) -> bytes:
        """The name of a call: the given one, or a number of its kind, alike on all ranks."""
        if name is not None:
            return name.encode()
        return b"%s.%d" % (kind.encode(), next(self._counters[kind]))

    @property
    def rank(self) -> int:
        return self._lib.ls_rank(self._need())

    @property
    def size(self) -> int:
        return self._lib.ls_size(self._need())

    @property
    def local_rank(self) -> int:
        return self._lib.ls_local_rank(self._need())

    @property
    def local_size(self) -> int:
        return self._lib.ls_local_size(self._need())

    @property
    def cross_rank(self) -> int:
        """This host's number among the hosts that have a rank of this local rank."""
        return self._lib.ls_cross_rank(self._need())

    @property
    def cross_size(self) -> int:
        return self._lib.ls_cross_size(self._need())

    @property
    def is_homogeneous(self) -> bool:
        """True: all hosts have as many ranks."""
        return self._lib.ls_is_homogeneous(self._need())

    def start_timeline(self, path: str) -> None:
        """Writes the calls from now on to path, one file a rank: "%r" becomes the rank, or ".rankN" is added. While
        LOCKSTEP_TRACE writes one it is an error."""
        self.call("ls_timeline_start", os.fsencode(path))

    def stop_timeline(self) -> None:
        """The file is whole when it returns."""
        self.call("ls_timeline_stop")

    def subset(self, ranks: Sequence[int]) -> Optional["Communicator"]:
        """A group of some ranks, numbered in this order, on those; None on the others. All ranks call it alike. Its calls
        may go on beside this group's, from other threads. Closing this group closes it."""
        chosen, handle = [int(rank) for rank in ranks], ctypes.c_void_p()
        self.call("ls_communicator_subset", (ctypes.c_int * len(chosen))(*chosen), len(chosen), ctypes.byref(handle))
        if not handle:
            return None
        made = Communicator.__new__(Communicator)
        made._prepare(self._timeout)
        made._adopt(handle)
        self._sets.add(made)
        return made

    def join(self) -> int:
        """This rank has no more steps. Returns when all ranks have joined: the last of them. Meanwhile it gives zeros to
        the others' all-reduces; a mean is over those that have not joined. All ranks have made their group with negotiate."""
        if not self.negotiates:
            raise LockstepError(Status.FAILED_PRECONDITION, "join needs calls that are matched by name: all ranks call "
                                                            "init(negotiate=True)", self._rank)
        last = ctypes.c_int()
        self.call("ls_join", ctypes.byref(last))
        return last.value

    def begin_native(self, options: Options) -> "Begun":
        """Begins an all-reduce that the ranks match by its name, whatever the order; negotiate only. As with begin, the group
        holds the memory until the call has ended."""
        need_held("ls_all_reduce_begin", (options,))
        handle = ctypes.c_void_p()
        self.call("ls_all_reduce_begin", options, ctypes.byref(handle))
        while self._begun and self._begun[0].done():
            self._begun.popleft()
        begun = Begun(self, handle, options)
        self._begun.append(begun)
        return begun

    def absent(self, what: str) -> LockstepError:
        return LockstepError(Status.UNIMPLEMENTED, f"liblockstep {self._lib.version} has no {what}", self._rank)

    @property
    def transport(self) -> str:
        """"shm", "tcp", "shm+tcp"; "none" alone."""
        return self._lib.ls_communicator_transport(self._need()).decode()

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    def abort(self, reason: str) -> None:
        """Ends all ranks' calls at once with ABORTED and the reason. Any thread may call it. Nothing recovers from it."""
        handle = self._handle
        if handle is not None:
            self._lib.ls_communicator_abort(handle, reason.encode())

    def recover(self, error: LockstepError) -> bool:
        """After a failed call: True when all ranks are there again, the lost one started anew. False: error is final;
        its message is then the library's last word. Calls that were begun before have failed."""
        status = ctypes.c_int(int(error.status))

        def again() -> bool:
            return _interrupt.in_call(self._lib.ls_communicator_recover, self._need(), ctypes.byref(status))
        recovered = self._calls.run_where(error.thread, again)
        if recovered:
            for group in (self, *self._sets):
                group._rank = group.rank
                group._counters.clear()
        elif status.value != int(error.status):
            raise LockstepError(status.value, error_text(), self._rank) from error
        return recovered

    def close(self, status: int = Status.OK) -> None:
        """Leaves the group. With OK it waits, with a limit, until every rank is done; with another status the others are
        told at once. Without effect on a closed one, and in a child of fork."""
        handle = self._handle
        if handle is None:
            return
        if not status:
            self._calls.run(lambda: None, "close")  # behind what was begun
            for begun in self._begun:
                _interrupt.in_call(self._lib.ls_pending_wait, begun._handle, 0.0)
        if self._messages is not None:
            self._messages.end()
        for group in (*self._sets, self):
            group._calls.end()
            if group._named is not None:
                group._named.end()
            group._named = group._messages = None
            group._handle = None
            _open.discard(group)
        ended = _interrupt.in_call(self._lib.ls_communicator_close, handle, int(status))
        self._begun.clear()
        if not status:
            self._check(ended)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if error is not None and self.is_open:
            self.abort(f"{kind.__name__}: {error}")
        self.close(Status.OK if error is None else Status.ABORTED)

    # ---- Collectives -------------------------------------------------------------------------------------------

    def all_reduce(self, array: Any, op: int = SUM, *, output: Any = None, name: Optional[str] = None,
                   dtype: Optional[str] = None, compression: Optional[str] = None, prescale: float = 1.0,
                   postscale: float = 1.0) -> Any:
        """Reduces over all ranks, in place, or into output. compression "fp16" or "bf16" rounds float32 between hosts.
        prescale multiplies each rank's input, and postscale the result."""
        given = _arrays.output(array, dtype) if output is None else _arrays.array(array, dtype)
        into = given if output is None else _arrays.output(output, dtype)
        _same(given, into, given.count, "output")
        self.call("ls_all_reduce", AllReduce(self.name("all_reduce", name), given, into, given.count, given.dtype, op,
                                             **scaling(compression, prescale, postscale)))
        return array if output is None else output

    def all_reduce_group(self, arrays: Sequence[Any], outputs: Sequence[Any], op: int = SUM, *, name: Optional[str] = None,
                         compression: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0) -> None:
        """All-reduces of several arrays into outputs, one call for each type. Arrays of other types than float32 are not
        compressed."""
        kinds: dict = {}
        for given, into in zip(map(_arrays.array, arrays), map(_arrays.output, outputs)):
            _same(given, into, given.count, "output")
            kinds.setdefault(given.dtype, []).append((given, into))
        called = self.name("all_reduce", name)
        for dtype, pairs in kinds.items():
            self.call("ls_all_reduce", AllReduce(
                b"%s.%s" % (called, _arrays.NAMES[dtype].encode()), dtype=dtype, op=op,
                inputs=[given for given, _ in pairs], outputs=[into for _, into in pairs],
                counts=[given.count for given, _ in pairs], array_count=len(pairs),
                **scaling(compression if dtype == _arrays.FLOAT32 else None, prescale, postscale)))

    def broadcast(self, array: Any, root: int = 0, *, name: Optional[str] = None, dtype: Optional[str] = None) -> Any:
        """Array of rank root becomes that of all ranks, in place. Root's own may be read-only."""
        found = _arrays.array(array, dtype) if root == self.rank else _arrays.output(array, dtype)
        self.call("ls_broadcast", Broadcast(self.name("broadcast", name), found, found.count, found.dtype, root))
        return array

    def all_gather(self, array: Any, output: Any, *, counts: Optional[Sequence[int]] = None, name: Optional[str] = None,
                   dtype: Optional[str] = None) -> Any:
        """Output becomes the arrays of all ranks in rank order. counts[rank] elements come from each; default: as many
        from each as here."""
        given, into = _arrays.array(array, dtype), _arrays.output(output, dtype)
        counts = self._counts(counts, [given.count] * self.size)
        if counts[self.rank] != given.count:
            raise _arrays.refuse(f"counts[{self.rank}] is {counts[self.rank]}, and the array of this rank has {given.count} elements")
        _same(given, into, sum(counts), "output")
        self.call("ls_all_gather", AllGather(self.name("all_gather", name), given, into, counts, given.dtype))
        return output

    def all_gather_rows(self, array: Any, make: Callable[[int], Any], *, name: Optional[str] = None) -> Any:
        """The arrays of all ranks along their first dimension, in which they may differ. make(rows) gives the output."""
        given = _arrays.array(array)
        if not given.shape:
            raise _arrays.refuse("a scalar has no rows; give it a first dimension")
        row = _arrays.SIZES[given.dtype]
        for extent in given.shape[1:]:
            row *= extent
        called = self.name("all_gather", name)

        def work():
            rows = self.gather_counts(given.shape[0], called)
            made = make(sum(rows))
            self.direct("ls_all_gather", AllGather(called, given, _arrays.output(made), [count * row for count in rows],
                                                   _arrays.UINT8))
            return made
        return self.run(work)

    def reduce_scatter(self, array: Any, output: Any, op: int = SUM, *, counts: Optional[Sequence[int]] = None,
                       name: Optional[str] = None, dtype: Optional[str] = None) -> Any:
        """Output becomes this rank's part of the reduction. Default counts: the first count mod size ranks get one more."""
        given, into = _arrays.array(array, dtype), _arrays.output(output, dtype)
        counts = self._counts(counts, split_evenly(given.count, self.size))
        if sum(counts) != given.count:
            raise _arrays.refuse(f"counts have {sum(counts)} elements together, and the array has {given.count}")
        _same(given, into, counts[self.rank], "output")
        self.call("ls_reduce_scatter", ReduceScatter(self.name("reduce_scatter", name), given, into, counts, given.dtype, op))
        return output

    def all_to_all(self, array: Any, counts: Optional[Sequence[int]] = None, *, name: Optional[str] = None,
                   dtype: Optional[str] = None) -> Tuple[Any, List[int]]:
        """counts[rank] elements for each rank, in rank order; default: equal parts. The bytes of what all ranks have for
        this one, and how many elements came from each."""
        given = _arrays.array(array, dtype)
        if counts is None and given.count % self.size:
            raise _arrays.refuse(f"{given.count} elements for {self.size} ranks have no equal parts: give counts")
        counts = self._counts(counts, [given.count // self.size] * self.size)
        if sum(counts) != given.count:
            raise _arrays.refuse(f"counts have {sum(counts)} elements together, and the array has {given.count}")
        called = self.name("all_to_all", name)
        return self.run(lambda: self.exchange_parts(called, given.dtype, given, counts))

    def send(self, array: Any, to: int, *, name: Optional[str] = None, dtype: Optional[str] = None) -> None:
        """Returns when the array may be used again. A message waits until that rank waits in a receive or a send."""
        given = _arrays.array(array, dtype)
        self.call("ls_send", Send((name or "message").encode(), given, given.count, given.dtype, to))

    def receive(self, array: Any, source: int, *, name: Optional[str] = None, dtype: Optional[str] = None) -> Any:
        """The oldest message of that rank with this name, which has the array's type and count, into the array."""
        into = _arrays.output(array, dtype)
        self.call("ls_receive", Receive((name or "message").encode(), into, into.count, into.dtype, source))
        return array

    def barrier(self, name: Optional[str] = None) -> None:
        """Returns when all ranks have called it."""
        self.call("ls_barrier", self.name("barrier", name))

    def exchange_parts(self, name: bytes, dtype: int, source: Any, counts: Sequence[int]) -> Tuple[Any, List[int]]:
        """From within work: an all-to-all of counts[rank] elements for each rank. Bytes, and how many elements came from
        each rank."""
        place, received = ctypes.c_void_p(), (ctypes.c_size_t * self.size)()
        self.direct("ls_all_to_all", AllToAll(name, source, counts, ctypes.pointer(place), received, dtype))
        return _owned(self._lib, place.value, sum(received) * _arrays.SIZES[dtype]), list(received)

    def gather_counts(self, count: int, name: bytes) -> List[int]:
        """The numbers of all ranks, from within work."""
        own, counts = ctypes.c_int64(count), (ctypes.c_int64 * self.size)()
        self.direct("ls_all_gather", AllGather(name + b".counts", own, counts, [1] * self.size, _arrays.INT64))
        return list(counts)

    def _counts(self, counts: Optional[Sequence[int]], default: List[int]) -> List[int]:
        found = default if counts is None else [int(count) for count in counts]
        if len(found) != self.size:
            raise _arrays.refuse(f"counts has {len(found)} numbers, and the group {self.size} ranks")
        if any(count < 0 for count in found):
            raise _arrays.refuse(f"counts {found} must not be negative")
        return found


def _owned(lib: Any, address: Optional[int], size: int) -> Any:
    """Memory that the library has allocated, as an object with the buffer protocol, which frees it at its end."""
    if not size:
        if address:
            lib.ls_memory_free(address)
        return (ctypes.c_char * 0)()
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, lib.ls_memory_free, address).atexit = False  # variables may hold it when the interpreter ends
    return memory


def _same(given: _arrays.Array, into: _arrays.Array, count: int, what: str) -> None:
    if into.dtype != given.dtype:
        raise _arrays.refuse(f"{what} is {_arrays.NAMES[into.dtype]}, and the array {_arrays.NAMES[given.dtype]}")
    if into.count != count:
        raise _arrays.refuse(f"{what} has {into.count} elements, and {count} are needed")


class Begun:
    """A call that the library itself runs: ls_pending. Its group holds it until it has ended."""
    error = None

    def __init__(self, group: Communicator, handle: ctypes.c_void_p, options: Options):
        self._group, self._handle, self._options = group, handle, options

    def done(self) -> bool:
        return self._group._lib.ls_pending_done(self._handle)

    def wait(self, timeout: Optional[float] = None) -> None:
        self._group._check(_interrupt.in_call(self._group._lib.ls_pending_wait, self._handle, timeout or 0.0))

    def __del__(self):
        if self._group._pid == os.getpid():
            self._group._lib.ls_pending_free(self._handle)


def _forked() -> None:
    """In a child of fork the group is the parent's: the child lets go of the handles, without closing them."""
    _interrupt.forked()
    for communicator in list(_open):
        communicator._handle = None
        communicator._calls = Calls()
        communicator._named = communicator._messages = None
        _open.discard(communicator)


os.register_at_fork(after_in_child=_forked)
