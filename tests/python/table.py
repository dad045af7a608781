"""One rank: every collective and type beside tests/golden/collectives.txt, with which C's are compared too
(tests/runtime/table_test.c)."""
import os
import sys

import lockstep

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
sys.path.insert(0, GOLDEN)
from collectives import COUNTS, digest, encode, inputs, parts, sent, to_seed

OPERATIONS = {"sum": lockstep.SUM, "mean": lockstep.MEAN, "min": lockstep.MIN, "max": lockstep.MAX, "product": lockstep.PRODUCT,
              "-": lockstep.SUM}


def call(collective, dtype, op, count):
    """What this rank receives."""
    world, rank, ranks = lockstep.world(), lockstep.rank(), lockstep.size()
    given = lambda source, numbers: encode(dtype, inputs(dtype, op, ranks, source, numbers))
    mine, width = given(rank, count), len(encode(dtype, [0]))
    room = lambda numbers: bytearray(numbers * width)
    if collective == "all_reduce":
        return world.all_reduce(mine, OPERATIONS[op], output=room(count), dtype=dtype)
    if collective == "reduce_scatter":
        return world.reduce_scatter(mine, room(parts(count, ranks)[rank]), OPERATIONS[op], dtype=dtype)
    if collective == "broadcast":
        return world.broadcast(bytearray(mine), count % ranks, dtype=dtype)
    if collective == "all_gather":
        return world.all_gather(mine, room(count * ranks), dtype=dtype)
    if collective == "ragged":
        counts = [count + source for source in range(ranks)]
        return world.all_gather(given(rank, counts[rank]), room(sum(counts)), counts=counts, dtype=dtype)
    counts = [sent(rank, to, count) for to in range(ranks)]
    memory = b"".join(given(rank + to_seed(to), counts[to]) for to in range(ranks))
    found, received = world.all_to_all(memory, counts, dtype=dtype)
    assert received == [sent(source, rank, count) for source in range(ranks)], received
    return found


lockstep.init(communication=sys.argv[1])
with open(os.path.join(GOLDEN, "collectives.txt"), encoding="ascii") as table:
    rows = [line.split() for line in table if not line.startswith("#")]
for collective, dtype, op, *digests in rows:
    made = b"".join(bytes(call(collective, dtype, op, count)) for count in COUNTS)
    found = digest(b"".join(lockstep.all_gather_object(made)))
    assert found == digests[lockstep.size() - 1], f"{collective} of {dtype}, {op}: {found}, not {digests[lockstep.size() - 1]}"
assert len(rows) > 100
print("whole")
