"""One rank: rank 0 drops what it gets of every call that it begins, and its arrays, long before the other ranks come to the call.
The arrays live until the call has ended, and no longer."""
import sys

import lockstep
from lockstep import _arrays
from lockstep._library import AllGather, AllReduce, Broadcast, ReduceScatter
from watched import first, left, watched

FLAG = sys.argv[1]
INT64 = _arrays.INT64
got = []


def memory(label, values):
    return _arrays.array(watched("q", values, label))


def several(count, value):
    return AllReduce(b"several", dtype=INT64, inputs=[memory(f"in {i}", [value + i]) for i in range(count)],
                     outputs=[memory(f"out {i}", [0]) for i in range(count)], counts=[1] * count, array_count=count)


def begin_all(world):
    """Begins a call of each function. work sees nothing but its arguments."""
    rank, size = world.rank, world.size

    def begin(function, call):
        world.begin(call.name.decode(), lambda: world.direct(function, call))
    begin("ls_all_reduce", AllReduce(b"one", memory("in", [rank] * 5), memory("out", [0] * 5), 5, INT64))
    begin("ls_all_reduce", several(3, rank))
    begin("ls_broadcast", Broadcast(b"word", memory("broadcast", [rank]), 1, INT64, size - 1))
    begin("ls_all_gather", AllGather(b"rows", memory("mine", [rank]), memory("all", [0] * size), [1] * size, INT64))
    begin("ls_reduce_scatter", ReduceScatter(b"shards", memory("parts", range(size)), memory("part", [0]), [1] * size, INT64))
    parts, ones = memory("exchanged", range(size)), [1] * size
    world.begin("exchange", lambda: world.exchange_parts(b"exchange", INT64, parts, ones))


def begin_negotiated(group, numbers):
    for number in numbers:
        group.begin_native(AllReduce(b"%d" % number, memory(f"source {number}", [number]), memory(f"place {number}", [0]), 1, INT64))
    group.begin_native(several(2, 0))


def drop(begin, group, *arguments):
    """Nothing has ended when rank 0 looks: the others have begun nothing."""
    before = left()
    assert not before, before

    def alone():
        begin(group, *arguments)
        got.append(left())
        assert len(got[-1]) == len(set(got[-1])) > 8, got[-1]
    first(group.rank, FLAG + begin.__name__, alone)
    if group.rank:
        begin(group, *arguments)


lockstep.init()
drop(begin_all, lockstep.world())
if lockstep.rank() == 0:
    assert got[-1] == {"in", "out", *(f"{way} {i}" for way in ("in", "out") for i in range(3)), "broadcast",
                       "mine", "all", "parts", "part", "exchanged"}, got[-1]
lockstep.barrier()  # behind them all
assert not left(), left()
lockstep.shutdown()

lockstep.init(negotiate=True)
order = range(4) if lockstep.rank() == 0 else reversed(range(4))
drop(begin_negotiated, lockstep.world(), order)
lockstep.shutdown()
assert not left(), left()
print("whole")
