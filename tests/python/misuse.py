"""One rank: what is wrong here is one clear error here, and what differs between ranks is one on all."""
import array
import os
import sys

import lockstep
from lockstep import LockstepError, Status


class Interface:
    """An object of NumPy's kind, over an array."""

    def __init__(self, values, typestr="<f4", shape=None, strides=None):
        self.values = values
        self.__array_interface__ = {"version": 3, "typestr": typestr, "shape": shape or (len(values),), "strides": strides,
                                    "data": (values.buffer_info()[0], False)}


def refused(status, words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except LockstepError as error:
        if error.status != status or words not in str(error):
            raise AssertionError(f"{error} is no {status.name} with '{words}'") from error
        return error
    raise AssertionError(f"'{words}' was not refused")


def locally():
    floats = array.array("f", [1, 2, 3, 4])
    bad = Status.INVALID_ARGUMENT
    refused(bad, "gives no memory", lockstep.all_reduce, [1.0])
    refused(bad, "read-only", lockstep.all_reduce, b"1234", dtype="float32")
    refused(bad, "no whole number of float32", lockstep.all_reduce, bytearray(5), dtype="float32")
    refused(bad, "float8 is none of float32", lockstep.all_reduce, floats, dtype="float8")
    refused(bad, "has 8 bytes an element, and the array has 4", lockstep.all_reduce, floats, dtype="float64")
    refused(bad, "not contiguous", lockstep.all_reduce, memoryview(floats)[::2])
    refused(bad, "output has 3 elements, and 4 are needed", lockstep.all_reduce, floats, output=floats[:3])
    refused(bad, "output is float64, and the array float32", lockstep.all_reduce, floats, output=array.array("d", [0] * 4))
    refused(bad, "compression 'fp8'", lockstep.all_reduce, floats, compression="fp8")
    refused(bad, "counts has 1 numbers", lockstep.all_gather, floats, floats, counts=[4])
    refused(bad, "must not be negative", lockstep.reduce_scatter, floats, array.array("f", [0] * 5),
            counts=[5, -1] + [0] * (lockstep.size() - 2))
    refused(bad, "big-endian", lockstep.all_reduce, Interface(floats, ">f4"))
    refused(bad, "not contiguous", lockstep.all_reduce, Interface(floats, shape=(2, 2), strides=(4, 8)))
    refused(bad, "root", lockstep.broadcast, floats, lockstep.size())
    lockstep.all_reduce(Interface(floats, shape=(2, 2), strides=(8, 4)))
    assert floats[3] == 4 * lockstep.size(), floats


def forked():
    """The child gets an error, and its end leaves the parent's group alone."""
    child = os.fork()
    if not child:
        error = refused(Status.FAILED_PRECONDITION, "was forked from rank", lockstep.barrier)
        assert isinstance(error, ValueError)
        refused(Status.FAILED_PRECONDITION, "was forked from rank", lockstep.init)
        refused(Status.FAILED_PRECONDITION, "was forked from rank", lockstep.rank)
        assert not lockstep.is_initialized()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    lockstep.barrier()


def begun():
    """Calls that were begun end in their order; one name is begun once at a time."""
    world = lockstep.world()
    numbers = array.array("q", [1])
    memory = numbers.buffer_info()[0]
    first = world.begin("first", lambda: world.direct("ls_all_reduce", b"first", 0, 5, memory, memory, 1))
    again = world.begin("second", lambda: world.direct("ls_all_reduce", b"second", 0, 5, memory, memory, 1))
    lockstep.all_reduce(numbers)
    assert first.done() and again.done() and numbers[0] == lockstep.size() ** 3, numbers
    broken = world.begin("broken", lambda: world.direct("ls_broadcast", b"broken", -1, 5, memory, 1))
    refused(Status.INVALID_ARGUMENT, "root", broken.wait)


refused(Status.FAILED_PRECONDITION, "call init() first", lockstep.rank)
lockstep.init()
locally()
forked()
begun()
error = refused(Status.INVALID_ARGUMENT, "differ", lockstep.all_reduce, array.array("f", [0] * (4 + lockstep.rank())), name="differ")
assert error.rank == lockstep.rank() and error.exit_status == 2, error
print("whole")
