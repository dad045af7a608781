#!/usr/bin/env python3
"""Computes what every collective gives, without Lockstep; prints collectives.txt, which C's tests and Python's compare with.

    python3 tests/golden/collectives.py > tests/golden/collectives.txt

A row is a collective, a type, an operation, and for groups of 1 to 8 ranks the beginning of a SHA-256. It is of the outputs of
all ranks in order, and of each rank those for every count of COUNTS in order. All types hold these numbers and their sums."""
import hashlib
import struct

COUNTS = (0, 1, 7, 1000)
RANKS = 8
DIGITS = 10
FORMATS = {"float32": "f", "float64": "d", "float16": "e", "bfloat16": "", "int32": "i", "int64": "q", "uint8": "B", "int8": "b",
           "bool": "?"}
OPERATIONS = ("sum", "mean", "min", "max", "product")
COLLECTIVES = ("all_reduce", "reduce_scatter", "broadcast", "all_gather", "ragged", "all_to_all")


def operations(collective, dtype):
    """"-" stands for none."""
    if collective not in ("all_reduce", "reduce_scatter"):
        return ("-",)
    return tuple(op for op in OPERATIONS if (dtype, op) != ("bool", "mean"))


def inputs(dtype, op, ranks, rank, count):
    """The numbers that a rank gives."""
    if op == "product":
        return [1 + ((i + rank) % 3 == 0) for i in range(count)]
    least = 0 if dtype in ("uint8", "bool") else -2
    found = [((7 * i + 13 * rank) % 5 + least) * (ranks if op == "mean" else 1) for i in range(count)]
    return [number % 2 for number in found] if dtype == "bool" else found


def encode(dtype, numbers):
    if dtype == "bfloat16":  # the upper half of a float32
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    if dtype == "bool":
        return bytes(number != 0 for number in numbers)
    return struct.pack(f"<{len(numbers)}{FORMATS[dtype]}", *numbers)


def parts(count, ranks):
    """The counts of a reduce-scatter: the first count mod ranks get one more."""
    return [count // ranks + (rank < count % ranks) for rank in range(ranks)]


def sent(source, to, count):
    """How many numbers of an all-to-all go from source to another rank."""
    return count + source * to


def reduced(dtype, op, ranks, count):
    columns = zip(*(inputs(dtype, op, ranks, rank, count) for rank in range(ranks)))
    if dtype == "bool":
        return [any(column) if op in ("sum", "max") else all(column) for column in columns]
    if op == "product":
        return [2 ** sum(number == 2 for number in column) for column in columns]
    made = {"sum": sum, "mean": lambda column: sum(column) // ranks, "min": min, "max": max}[op]
    return [made(column) for column in columns]


def outputs(collective, dtype, op, ranks, rank, count):
    """The numbers that a rank gets."""
    if collective == "all_reduce":
        return reduced(dtype, op, ranks, count)
    if collective == "reduce_scatter":
        counts = parts(count, ranks)
        return reduced(dtype, op, ranks, count)[sum(counts[:rank]):sum(counts[:rank + 1])]
    if collective == "broadcast":
        return inputs(dtype, op, ranks, count % ranks, count)
    if collective == "all_gather":
        return [number for source in range(ranks) for number in inputs(dtype, op, ranks, source, count)]
    if collective == "ragged":
        return [number for source in range(ranks) for number in inputs(dtype, op, ranks, source, count + source)]
    return [number for source in range(ranks) for number in inputs(dtype, op, ranks, source + to_seed(rank), sent(source, rank, count))]


def to_seed(rank):
    """What rank of an all-to-all gets is as the numbers of another rank, so that no two parts are alike by rank alone."""
    return 3 * rank


def digest(memory):
    return hashlib.sha256(memory).hexdigest()[:DIGITS]


def rows():
    """(collective, dtype, op) of each row."""
    return [(collective, dtype, op) for collective in COLLECTIVES for dtype in FORMATS for op in operations(collective, dtype)]


def record():
    print("# of tests/golden/collectives.py")
    for row in rows():
        digests = [digest(b"".join(encode(row[1], outputs(*row, ranks, rank, count)) for rank in range(ranks) for count in COUNTS))
                   for ranks in range(1, RANKS + 1)]
        print(*row, *digests)


if __name__ == "__main__":
    record()
