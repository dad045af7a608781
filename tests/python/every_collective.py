"""One rank: every collective of every type on every kind of memory, against sums of whole numbers, which all types hold."""
import array
import ctypes
import functools
import json
import random
import struct
import sys
import tempfile

import lockstep
from lockstep import MAX, MEAN, MIN, SUM

OPS = {SUM: sum, MIN: min, MAX: max, MEAN: lambda values: int(sum(values) / len(values))}
FORMATS = {"float32": "f", "float64": "d", "float16": "e", "int32": "i", "int64": "q", "int8": "b"}


def encode(dtype, values):
    if dtype == "bfloat16":  # whole numbers below 256 are the upper half of their float32
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def decode(dtype, data):
    if dtype == "bfloat16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}", data))


@functools.lru_cache(None)
def values_of(rank, count, seed):
    """Multiples of 4 of every rank, so that the mean of up to 4 ranks is whole."""
    drawn = random.Random(f"{seed}/{rank}")
    return [drawn.randrange(-2, 3) * 12 for _ in range(count)]


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
    exchange(dtype, count, seed)


def exchange(dtype, count, seed):
    """An all-to-all in which rank r has count + r * to elements for rank to, and a ring of messages."""
    world, rank, size = lockstep.world(), lockstep.rank(), lockstep.size()
    parts = [[values_of(f"{source} to {to}", count + source * to, seed) for to in range(size)] for source in range(size)]
    whole = [value for values in parts[rank] for value in values]
    found, counts = world.all_to_all(memory(dtype, whole, writable=False)[0], [len(part) for part in parts[rank]], dtype=dtype)
    if counts != [len(parts[source][rank]) for source in range(size)]:
        raise AssertionError(f"counts {counts} of an all-to-all")
    check("all-to-all", dtype, found, [value for source in range(size) for value in parts[source][rank]])
    if size > 1 and count:
        mine, said = memory(dtype, [0] * count)
        world.send(memory(dtype, values_of(rank, count, seed), writable=False)[0], (rank + 1) % size, dtype=dtype, name="ring")
        world.receive(mine, (rank - 1) % size, dtype=said, name="ring")
        check("a message", dtype, mine, values_of((rank - 1) % size, count, seed))


def try_sets():
    """A set in reverse order: its sums, and calls in it beside the group's; the others get none."""
    world = lockstep.world()
    ranks = list(range(world.size))[::-2]
    chosen = world.subset(ranks)
    assert (chosen is None) == (world.rank not in ranks)
    numbers = array.array("q", [world.rank])
    if chosen:
        assert (chosen.rank, chosen.size) == (ranks.index(world.rank), len(ranks))
        pending = chosen.begin("beside", lambda: chosen.direct("ls_barrier", b"beside"))
        lockstep.barrier()
        pending.wait()
        chosen.all_reduce(numbers)
        assert numbers[0] == sum(ranks), numbers
        gathered = lockstep.all_gather_object(world.rank, communicator=chosen)
        assert gathered == ranks and lockstep.broadcast_object(world.rank, 0, communicator=chosen) == ranks[0], gathered
        chosen.close()
        again = world.subset(ranks)  # closed with the group
        again.barrier()
    else:
        lockstep.barrier()
        world.subset(ranks)
    assert (world.cross_rank, world.cross_size, world.is_homogeneous) == (0, 1, True)


def try_timeline():
    with tempfile.TemporaryDirectory() as folder:
        lockstep.start_timeline(f"{folder}/calls.json")
        lockstep.all_reduce(array.array("i", [1]), name="timed")
        lockstep.stop_timeline()
        with open(f"{folder}/calls{'.rank%d' % lockstep.rank() if lockstep.size() > 1 else ''}.json", encoding="ascii") as file:
            assert [event for event in json.load(file)["traceEvents"] if event["name"].endswith("timed")]


lockstep.init(communication=sys.argv[1])
drawn = random.Random(sys.argv[2])
for dtype in [*FORMATS, "bfloat16"]:
    for count in (0, 1, 7, drawn.randrange(2, 3000)):
        try_all(dtype, count, sys.argv[2])
try_sets()
try_timeline()
lockstep.barrier()
lockstep.shutdown()
lockstep.init(communication=sys.argv[1])  # a second group in one process
check("all-reduce of the second group", "int32", lockstep.all_reduce(array.array("i", [1])), [lockstep.size()])
print("whole")
