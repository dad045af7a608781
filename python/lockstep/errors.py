"""The statuses of liblockstep as Python's exceptions."""
from __future__ import annotations

import enum
import threading
from typing import Optional


class Status(enum.IntEnum):
    """ls_status: gRPC's canonical codes."""
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# ls_exit: 2 bad configuration, 138 restart me, 143 stopped on request.
_EXIT_STATUS = {Status.INVALID_ARGUMENT: 2, Status.UNAUTHENTICATED: 2, Status.UNIMPLEMENTED: 2,
                Status.UNAVAILABLE: 138, Status.ABORTED: 138, Status.DEADLINE_EXCEEDED: 138, Status.CANCELLED: 143}


class LockstepError(RuntimeError):
    """A call failed. status says why, rank is this process's rank where it has one."""

    def __init__(self, status: int, message: str, rank: Optional[int] = None):
        super().__init__(message)
        self.status = Status(status)
        self.rank = rank
        self.thread = threading.get_ident()  # whose last error it is in the library

    def __str__(self) -> str:
        who = "" if self.rank is None else f"rank {self.rank}: "
        return f"{self.status.name}: {who}{self.args[0]}"

    def __reduce__(self):
        return type(self), (self.status, self.args[0], self.rank)

    @property
    def exit_status(self) -> int:
        """The exit status of a program that this error ends, as ls_exit's: 138 means that a new start may help."""
        return _EXIT_STATUS.get(self.status, 1)


class AbsentNameError(LockstepError, AttributeError):
    """A name of Horovod's that is not here; an AttributeError, so that hasattr and getattr's default work."""

    def __init__(self, message: str, *_):
        super().__init__(Status.UNIMPLEMENTED, message)

    def __reduce__(self):
        return type(self), (self.args[0],)


class NotInitializedError(LockstepError, ValueError):
    """A call before init or after shutdown; a ValueError, as Horovod's."""

    def __init__(self, message: str = "lockstep is not initialized; call init() first", *_):
        super().__init__(Status.FAILED_PRECONDITION, message)

    def __reduce__(self):
        return type(self), (self.args[0],)
