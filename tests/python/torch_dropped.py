"""One rank: the handle of every asynchronous call of lockstep.torch and of the c10d backend is dropped by rank 0 long before the
other ranks come to the call, and with it the tensors. Their memory lives until the call has ended, and no longer."""
import sys

import torch
import torch.distributed as dist

import lockstep.torch as hvd
import lockstep.torch.c10d
from lockstep.torch.ops import Reduction, _all_reduce
from watched import first, left, watched

FLAG, NEGOTIATE = sys.argv[1], sys.argv[2] == "negotiate"
hvd.init(negotiate=NEGOTIATE)
RANK, SIZE = hvd.rank(), hvd.size()


def tensor(label, *shape):
    """Its storage holds a watched array."""
    count = torch.Size(shape).numel()
    return torch.frombuffer(watched("f", [RANK + 1.0] * count, label), dtype=torch.float32).view(shape)


def made(*shape, dtype=None, **options):
    """torch.empty, which makes the results and the places between: watched too."""
    made.count += 1
    found = original(*shape, dtype=dtype, **options)
    if dtype not in (None, torch.float32) or not found.numel():
        return found
    return tensor(f"made {made.count}", *found.shape)


made.count, original = 0, torch.empty


def begin_reductions():
    hvd.allreduce_async(tensor("allreduce", 8), name="a")
    hvd.allreduce_async_(tensor("allreduce_", 8), name="b", op=hvd.Sum)
    hvd.allreduce_async_(tensor("scaled", 8), name="c", prescale_factor=0.5)
    hvd.grouped_allreduce_async([tensor(f"grouped {i}", 5) for i in range(3)], name="d")
    hvd.grouped_allreduce_async_([tensor(f"grouped_ {i}", 5) for i in range(3)], name="e")
    for wire in ("fp16", "bf16"):
        how = Reduction(op=hvd.Average, compression=getattr(hvd.Compression, wire))
        _all_reduce([tensor(wire, 6)], [tensor(f"{wire} out", 6)], wire, how).begin()


def begin_others():
    hvd.allgather_async(tensor("allgather", 2, 3), name="f")
    hvd.grouped_allgather_async([tensor("allgather 0", 2, 3), tensor("allgather 1", 1, 3)], name="g")
    hvd.broadcast_async(tensor("broadcast", 4), 0, name="h")
    hvd.broadcast_async_(tensor("broadcast_", 4), SIZE - 1, name="i")
    hvd.reducescatter_async(tensor("reducescatter", SIZE, 2), name="j")
    hvd.grouped_reducescatter_async([tensor("reducescatter 0", SIZE, 2)], name="k")
    hvd.alltoall_async(tensor("alltoall", SIZE, 2), name="l")
    values = tensor("sparse", 2)
    hvd.sparse_allreduce_async(torch.sparse_coo_tensor([[0, 1]], values, (4,), is_coalesced=True, check_invariants=False), name="m")


def begin_c10d():
    begin = {"async_op": True}
    dist.all_reduce(tensor("dist all_reduce", 4), **begin)
    dist.broadcast(tensor("dist broadcast", 4), 0, **begin)
    dist.reduce(tensor("dist reduce", 4), 0, **begin)
    dist.all_gather([tensor(f"dist gathered {i}", 2) for i in range(SIZE)], tensor("dist all_gather", 2), **begin)
    dist.all_gather_into_tensor(tensor("dist whole", SIZE * 2), tensor("dist part", 2), **begin)
    dist.reduce_scatter_tensor(tensor("dist own", 2), tensor("dist all", SIZE * 2), **begin)
    dist.all_to_all_single(tensor("dist came", SIZE), tensor("dist went", SIZE), **begin)
    dist.scatter(tensor("dist scatter", 2), [tensor(f"dist to {i}", 2) for i in range(SIZE)] if RANK == 0 else None, src=0, **begin)


# What a call itself reads and writes; it has copies of the others.
USED = {begin_reductions: {"allreduce", "allreduce_", "scaled", *(f"grouped{way} {i}" for way in ("", "_") for i in range(3)),
                           *(f"{wire}{way}" for wire in ("fp16", "bf16") for way in ("", " out")), "made 1", "made 2"},
        begin_others: {"allgather", "allgather 0", "allgather 1", "broadcast_", "reducescatter", "reducescatter 0", "alltoall",
                       "sparse"},
        begin_c10d: {"dist all_reduce", "dist broadcast", "dist reduce", "dist gathered 0", "dist all_gather", "dist whole",
                     "dist part", "dist own", "dist all", "dist came", "dist went", "dist scatter"}}


def drop(begin):
    torch.empty, made.count = made, 0

    def alone():
        begin()
        missing = USED[begin] - left()
        assert not missing, f"freed before the call has ended: {sorted(missing)}"
    first(RANK, FLAG + begin.__name__, alone)
    if RANK:
        begin()
    torch.empty = original


drop(begin_reductions)
if NEGOTIATE:
    hvd.shutdown()  # when all have ended
else:
    drop(begin_others)
    dist.init_process_group("lockstep")
    drop(begin_c10d)
    hvd.barrier()  # behind them all
assert not left(), f"held after the end: {sorted(left())}"
print("whole")
