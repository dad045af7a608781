"""One rank: rank 0 drops what it gets of every call that it begins, and its arrays, long before the other ranks come to the call.
The arrays live until the call has ended, and no longer."""
import sys

import lockstep
from lockstep import _arrays
from lockstep._library import Memories
from watched import first, left, watched

FLAG = sys.argv[1]
INT64 = _arrays.INT64
got = []


def memory(label, values):
    return _arrays.array(watched("q", values, label))


def begin_all(world):
    """Begins a call of each function. work sees nothing but its arguments."""
    rank, size = world.rank, world.size

    def begin(function, *arguments):
        world.begin(function, lambda: world.direct(function, function.encode(), *arguments))
    begin("ls_all_reduce", 0, INT64, memory("in", [rank] * 5), memory("out", [0] * 5), 5)
    begin("ls_all_reduce_with", 0, INT64, None, memory("in with", [rank]), memory("out with", [0]), 1)
    begin("ls_all_reduce_group", 0, INT64, None, Memories([memory(f"in {i}", [rank]) for i in range(3)]),
          Memories([memory(f"out {i}", [0]) for i in range(3)]), lockstep.communicator.sizes([1] * 3), 3)
    begin("ls_broadcast", size - 1, INT64, memory("broadcast", [rank]), 1)
    begin("ls_all_gather", INT64, memory("mine", [rank]), lockstep.communicator.sizes([1] * size), memory("all", [0] * size))
    begin("ls_reduce_scatter", 0, INT64, memory("parts", range(size)), lockstep.communicator.sizes([1] * size), memory("part", [0]))
    parts, ones = memory("exchanged", range(size)), [1] * size
    world.begin("exchange", lambda: world.exchange_parts(b"exchange", INT64, parts, ones))


def begin_negotiated(group, numbers):
    for number in numbers:
        group.begin_native("ls_all_reduce_begin", (b"%d" % number, 0, INT64, None, memory(f"source {number}", [number]),
                                                   memory(f"place {number}", [0]), 1))
    group.begin_native("ls_all_reduce_group_begin", (
        b"several", 0, INT64, None, Memories([memory(f"in {i}", [i]) for i in range(2)]),
        Memories([memory(f"out {i}", [0]) for i in range(2)]), lockstep.communicator.sizes([1] * 2), 2))


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
    assert got[-1] == {"in", "out", "in with", "out with", *(f"{way} {i}" for way in ("in", "out") for i in range(3)), "broadcast",
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
