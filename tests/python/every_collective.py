"""One rank: every collective of every type on every kind of memory, against sums of whole numbers, which all types hold."""
import array
import ctypes
import random
import struct
import sys

import lockstep
from lockstep import MAX, MEAN, MIN, SUM

OPS = {SUM: sum, MIN: min, MAX: max, MEAN: lambda values: int(sum(values) / len(values))}
FORMATS = {"float32": "f", "float64": "d", "float16": "e", "int32": "i", "int64": "q"}


def encode(dtype, values):
    if dtype == "bfloat16":  # whole numbers below 256 are the upper half of their float32
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def decode(dtype, data):
    if dtype == "bfloat16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}", data))


def values_of(rank, count, seed):
    """Multiples of 4 of every rank, so that the mean of up to 4 ranks is whole."""
    drawn = random.Random(f"{seed}/{rank}")
    return [drawn.randrange(-12, 13) * 12 for _ in range(count)]


def memory(dtype, values, writable=True):
    """The values as some object that has memory, and what to say of its type."""
    data = encode(dtype, values)
    if dtype in ("float16", "bfloat16"):
        return (bytearray(data) if writable else data), dtype
    if not writable:
        return data, dtype
    kind = len(values) % 3
    if kind == 0:
        return array.array(FORMATS[dtype], values), None
    if kind == 1:
        return memoryview(bytearray(data)).cast(FORMATS[dtype]), None
    return (ctypes.c_char * len(data)).from_buffer(bytearray(data)), dtype


def check(what, dtype, found, expected):
    found = decode(dtype, bytes(memoryview(found).cast("B")))
    if found != expected:
        raise AssertionError(f"{what} of {dtype}: {found[:8]}, and {expected[:8]} was expected")


def try_all(dtype, count, seed):
    rank, size = lockstep.rank(), lockstep.size()
    inputs = [values_of(other, count, seed) for other in range(size)]
    for op, function in OPS.items():
        want = [function([values[i] for values in inputs]) for i in range(count)]
        mine, said = memory(dtype, inputs[rank])
        check("all-reduce in place", dtype, lockstep.all_reduce(mine, op, dtype=said), want)
        into, _ = memory(dtype, [0] * count)
        lockstep.all_reduce(memory(dtype, inputs[rank], writable=False)[0], op, output=into, dtype=dtype)
        check("all-reduce", dtype, into, want)
        counts = lockstep.split_evenly(count, size)
        begin = sum(counts[:rank])
        part, _ = memory(dtype, [0] * counts[rank])
        lockstep.reduce_scatter(memory(dtype, inputs[rank], writable=False)[0], part, op, dtype=dtype)
        check("reduce-scatter", dtype, part, want[begin:begin + counts[rank]])
    for root in range(size):
        mine, said = memory(dtype, inputs[rank], writable=rank != root)
        check("broadcast", dtype, lockstep.broadcast(mine, root, dtype=said), inputs[root])
    everything, said = memory(dtype, [0] * count * size)
    lockstep.all_gather(memory(dtype, inputs[rank], writable=False)[0], everything, dtype=dtype)
    check("all-gather", dtype, everything, [value for values in inputs for value in values])
    counts = [count + other for other in range(size)]
    ragged = [values_of(other, counts[other], seed) for other in range(size)]
    everything, _ = memory(dtype, [0] * sum(counts))
    lockstep.all_gather(memory(dtype, ragged[rank], writable=False)[0], everything, counts=counts, dtype=dtype)
    check("all-gather of unequal parts", dtype, everything, [value for values in ragged for value in values])


lockstep.init(communication=sys.argv[1])
drawn = random.Random(sys.argv[2])
for dtype in [*FORMATS, "bfloat16"]:
    for count in (0, 1, 7, drawn.randrange(2, 3000)):
        try_all(dtype, count, sys.argv[2])
lockstep.barrier()
lockstep.shutdown()
lockstep.init(communication=sys.argv[1])  # a second group in one process
check("all-reduce of the second group", "int32", lockstep.all_reduce(array.array("i", [1])), [lockstep.size()])
print("whole")
