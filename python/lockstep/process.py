"""The group of this process: Horovod's init, rank, size, shutdown.

A script that ends without shutdown leaves in order. One that an exception ends tells the others why at once."""
from __future__ import annotations

import atexit
import sys
import threading
from typing import Any, Optional

from . import _library
from .communicator import Communicator
from .errors import LockstepError, NotInitializedError, Status

_world: Optional[Communicator] = None
_why: Optional[str] = None  # what has ended the script, if it was no success
_hooked = False


def world() -> Communicator:
    """The group of init."""
    if _world is None:
        raise NotInitializedError()
    _world._need()
    return _world


def init(comm: Any = None, process_sets: Any = None, **options: Any) -> None:
    """Joins the group of TF_CONFIG (lockstep run sets it), or stands alone without it. A second call has no effect.
    options are those of Communicator."""
    global _world
    if comm is not None:
        raise LockstepError(Status.UNIMPLEMENTED, "init(comm) wants MPI; start the processes with lockstep run, and give "
                                                  "subsets of them as process sets")
    if is_initialized():
        return
    if _world is not None:
        _world.check_process()
    _hook()
    _world = Communicator(**options)
    if process_sets:
        from .process_sets import register
        register(process_sets)


def shutdown() -> None:
    """Leaves the group in order: waits, with a limit, until all ranks leave. init may follow."""
    global _world
    leaving, _world = _world, None
    if leaving is not None:
        leaving.close()


def is_initialized() -> bool:
    return _world is not None and _world.is_open


def rank() -> int:
    return world().rank


def size() -> int:
    return world().size


def local_rank() -> int:
    """This rank's number among those of its host."""
    return world().local_rank


def local_size() -> int:
    return world().local_size


def cross_rank() -> int:
    """This rank's number among the ranks of the same local_rank, one a host."""
    return world().cross_rank


def cross_size() -> int:
    """Hosts that have this local_rank."""
    return world().cross_size


def is_homogeneous() -> bool:
    """True: every host has as many ranks."""
    return world().is_homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Writes what this rank's calls take to a file, from now on; there are no cycles to mark."""
    world().start_timeline(file_path)


def stop_timeline() -> None:
    world().stop_timeline()


# ---- The end of the script -----------------------------------------------------------------------------------------


def _note(why: str) -> None:
    """The group hears of it when the script has ended: who raises SystemExit may be caught."""
    global _why
    _why = why


def _exception(kind, error, trace, before) -> None:
    goes_on = hasattr(sys, "ps1")  # an interactive session
    if is_initialized() and not goes_on:
        _note(f"{kind.__name__}: {str(error)[:300]}")
        _world.abort(_why)
    before(kind, error, trace)
    if goes_on:
        return
    if isinstance(error, LockstepError) and error.exit_status != 1:
        raise SystemExit(error.exit_status)  # what lockstep run and Kubernetes restart; the trace is printed


def _exit(code: Any = None) -> None:
    if code not in (None, 0) and threading.current_thread() is threading.main_thread():
        _note(f"sys.exit({code!r})")
    raise SystemExit(code)


def _end() -> None:
    global _world
    leaving, _world = _world, None
    if leaving is None or not leaving.is_open:
        return
    try:
        if _why:
            leaving.abort(_why)
        leaving.close(Status.ABORTED if _why else Status.OK)
    except LockstepError as error:
        print(f"lockstep: {error}", file=sys.stderr)


def _hook() -> None:
    """Once: what runs when the script ends."""
    global _hooked
    if _hooked:
        return
    _hooked = True
    before = sys.excepthook
    sys.excepthook = lambda kind, error, trace: _exception(kind, error, trace, before)
    sys.exit = _exit
    atexit.register(_end)


def version() -> str:
    """The version of liblockstep."""
    return _library.library().version
