"""One rank: what is wrong here is one clear error here, and what differs between ranks is one on all."""
import array
import ctypes
import os
import sys

import lockstep
from lockstep import LockstepError, Status, _arrays
from lockstep._library import AllReduce, Broadcast


class Interface:
    """An object of NumPy's kind, over an array."""

    def __init__(self, values, typestr="<f4", shape=None, strides=None):
        self.values = values
        self.__array_interface__ = {"version": 3, "typestr": typestr, "shape": shape or (len(values),), "strides": strides,
                                    "data": (values.buffer_info()[0], False)}


class Packed:
    """An object that gives its memory as a capsule of DLPack: of version 1 with these flags, or of none."""

    def __init__(self, values, flags=None):
        shape = (ctypes.c_int64 * 1)(len(values))
        tensor = _arrays._DLTensor(data=values.buffer_info()[0], device_type=1, ndim=1, code=2, bits=32, lanes=1, shape=shape)
        given = tensor if flags is None else _arrays._DLVersioned(major=1, flags=flags, tensor=tensor)
        name = ctypes.c_char_p(b"dltensor" if flags is None else b"dltensor_versioned")
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
        self.held, self.capsule, self.flags = (values, shape, given, name), new(ctypes.addressof(given), name, None), flags

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        if self.flags is None and options:
            raise TypeError("no versions")
        return self.capsule


class Mutable(Packed):
    def __iadd__(self, other):
        raise NotImplementedError


def packed():
    """Memory that others may share is read, and not written."""
    floats, size = array.array("f", [1, 2, 3, 4]), lockstep.size()
    for written in (Packed(floats, 0), Mutable(floats)):
        lockstep.all_reduce(written)
    assert floats[3] == 4 * size ** 2, floats
    for read in (Packed(floats), Packed(floats, 1), Packed(floats, 2)):
        refused(Status.INVALID_ARGUMENT, "Packed is read-only", lockstep.all_reduce, read)
        found = array.array("f", [0] * 4)
        lockstep.all_reduce(read, output=found)
        assert found[3] == floats[3] * size, found


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
    refused(bad, "type '<M8[ns]' is of none of float32", lockstep.all_reduce, Interface(array.array("q", [1]), "<M8[ns]"))
    refused(bad, "root", lockstep.broadcast, floats, lockstep.size())
    refused(bad, "op is 'sum': give Sum", lockstep.all_reduce, floats, "sum")
    refused(Status.FAILED_PRECONDITION, "init(negotiate=True)", lockstep.world().join)
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
    memory = _arrays.array(numbers)
    first = world.begin("first", lambda: world.direct("ls_all_reduce", AllReduce(b"first", memory, memory, 1, 5)))
    again = world.begin("second", lambda: world.direct("ls_all_reduce", AllReduce(b"second", memory, memory, 1, 5)))
    lockstep.all_reduce(numbers)
    assert first.done() and again.done() and numbers[0] == lockstep.size() ** 3, numbers
    refused(Status.INVALID_ARGUMENT, "input of ls_all_reduce is an address alone", world.direct, "ls_all_reduce",
            AllReduce(b"alone", numbers.buffer_info()[0], memory, 1, 5))
    broken = world.begin("broken", lambda: world.direct("ls_broadcast", Broadcast(b"broken", memory, 1, 5, -1)))
    refused(Status.INVALID_ARGUMENT, "root", broken.wait)


refused(Status.FAILED_PRECONDITION, "call init() first", lockstep.rank)
lockstep.init()
locally()
packed()
forked()
begun()
error = refused(Status.INVALID_ARGUMENT, "differ", lockstep.all_reduce, array.array("f", [0] * (4 + lockstep.rank())), name="differ")
assert error.rank == lockstep.rank() and error.exit_status == 2, error
print("whole")
