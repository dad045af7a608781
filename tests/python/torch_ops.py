"""One rank: Horovod's collectives on tensors of every type, begun in any way, against what one process computes of all ranks'."""
import random
import sys
import threading

import torch

import lockstep
import lockstep.torch as hvd
from lockstep import LockstepError, Status

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int32, torch.int64, torch.uint8, torch.int8]
OPS = {hvd.Sum: lambda t: t.sum(0), hvd.Average: lambda t: t.sum(0) / t.shape[0], hvd.Min: lambda t: t.amin(0), hvd.Max: lambda t: t.amax(0),
       hvd.Product: lambda t: t.prod(0)}

hvd.init()
RANK, SIZE, SEED = hvd.rank(), hvd.size(), sys.argv[1]
everywhere = random.Random(SEED)


def drawn(shape, dtype, rank, salt=0):
    """Small whole numbers, of which the mean of up to 4 ranks is whole too."""
    generator = torch.Generator().manual_seed(hash((int(SEED), rank, salt)) % 2**31)
    return (torch.randint(-1, 3, shape, generator=generator) * (12 if dtype in FLOATS else 1)).to(dtype)


def layouts(tensor):
    """The same values in other memory: contiguous, transposed, every second one."""
    yield tensor
    if tensor.dim() == 2:
        yield tensor.t().contiguous().t()
        wide = tensor.new_zeros(tensor.shape[0], tensor.shape[1] * 2)
        wide[:, ::2] = tensor
        yield wide[:, ::2]


def same(found, expected, what):
    if found.dtype != expected.dtype or found.shape != expected.shape or not torch.equal(found, expected):
        raise AssertionError(f"{what}: {found} is not {expected}")


def refused(status, words, function):
    try:
        function()
    except LockstepError as error:
        assert error.status == status and words in str(error), error
        return
    raise AssertionError(f"'{words}' was not refused")


def ways(tensor, **options):
    """All ways to say one all-reduce."""
    yield hvd.allreduce(tensor, **options)
    yield hvd.synchronize(hvd.allreduce_async(tensor, **options))
    yield hvd.allreduce_(tensor.clone(), **options)
    yield hvd.synchronize(hvd.allreduce_async_(tensor.clone(), **options))
    yield hvd.grouped_allreduce([tensor, tensor.new_zeros(3)], **options)[0]
    yield hvd.grouped_allreduce_([tensor.clone(), tensor.new_zeros(2, 2)], **options)[0]
    yield hvd.synchronize(hvd.grouped_allreduce_async([tensor.new_zeros(()), tensor], **options))[1]
    yield hvd.synchronize(hvd.grouped_allreduce_async_([tensor.clone(), tensor.new_zeros(0)], **options))[0]


def all_reduces():
    for dtype in FLOATS + INTEGERS:
        for shape in ((), (0,), (7,), (5, 3), (everywhere.randrange(1, 3000),)):
            inputs = torch.stack([drawn(shape, dtype, rank) for rank in range(SIZE)])
            for op, function in OPS.items():
                if op == hvd.Average and dtype in INTEGERS or op == hvd.Product and dtype in FLOATS[2:]:
                    continue
                expected = function(inputs.double() if dtype in FLOATS else inputs).to(dtype)
                for tensor in layouts(inputs[RANK].clone()):
                    for found in ways(tensor, op=op):
                        same(found, expected, f"all-reduce {op} of {dtype} {shape}")
                        same(tensor, inputs[RANK], "the input")
    bits = torch.tensor([True, RANK == 0, False])
    same(hvd.allreduce(bits, op=hvd.Max), torch.tensor([True, True, False]), "or")
    same(hvd.allreduce(bits, op=hvd.Min), torch.tensor([True, SIZE == 1, False]), "and")


def adasum(vectors):
    """The definition: halves are combined, without what each has in common with the other."""
    if len(vectors) == 1:
        return vectors[0]
    a, b = adasum(vectors[:len(vectors) // 2]), adasum(vectors[len(vectors) // 2:])
    share = lambda x: 1 - float((a * b).sum() / (x * x).sum()) / 2 if x.any() else 1
    return share(a) * a + share(b) * b


def adasums():
    inputs = [drawn((everywhere.randrange(1, 500),), torch.float64, rank) for rank in range(SIZE)]
    length = min(map(len, inputs))
    vectors = [one[:length] for one in inputs]
    if SIZE & (SIZE - 1):
        refused(Status.INVALID_ARGUMENT, "power of two", lambda: hvd.allreduce(vectors[RANK], op=hvd.Adasum))
        return
    for tensor in layouts(vectors[RANK].clone()):
        for found in ways(tensor, op=hvd.Adasum):
            assert torch.allclose(found, adasum(vectors), rtol=1e-9, atol=1e-12), (found, adasum(vectors))
    refused(Status.INVALID_ARGUMENT, "adasum is for floats", lambda: hvd.allreduce(torch.ones(3, dtype=torch.int32), op=hvd.Adasum))


def factors():
    mine = torch.arange(6.) * (RANK + 1)
    total = torch.arange(6.) * sum(range(1, SIZE + 1))
    for found in ways(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0):
        same(found, total * 2, "factors")
    same(mine, torch.arange(6.) * (RANK + 1), "the input with factors")
    same(hvd.allreduce(mine, average=False), total, "average=False")
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        same(hvd.allreduce(mine, op=hvd.Sum, compression=compression), total, "compression")
        same(hvd.allreduce(mine.double(), op=hvd.Sum, compression=compression), total.double(), "compression of float64")
        same(hvd.reducescatter(mine, op=hvd.Sum, compression=compression), total.tensor_split(SIZE)[RANK], "compression")


def moves():
    for dtype in FLOATS + INTEGERS + [torch.bool, torch.int16, torch.complex64]:
        ragged = [drawn((rank + 1, 3), torch.int64, rank).to(dtype) for rank in range(SIZE)]
        for tensor in layouts(ragged[RANK].clone()):
            same(hvd.allgather(tensor), torch.cat(ragged), f"all-gather of {dtype}")
            same(hvd.synchronize(hvd.allgather_async(tensor)), torch.cat(ragged), "all-gather, begun")
        pair = hvd.grouped_allgather([ragged[RANK], ragged[RANK][:RANK]])
        same(pair[1], torch.cat([part[:rank] for rank, part in enumerate(ragged)]), "all-gather of a group")
        for root in range(SIZE):
            for tensor in layouts(drawn((4, 5), torch.int64, RANK).to(dtype)):
                expected = drawn((4, 5), torch.int64, root).to(dtype)
                same(hvd.broadcast(tensor, root), expected, f"broadcast of {dtype}")
                same(hvd.synchronize(hvd.broadcast_async(tensor, root)), expected, "broadcast, begun")
                same(hvd.broadcast_(tensor.clone(), root), expected, "broadcast in place")
                same(hvd.synchronize(hvd.broadcast_async_(tensor, root)), expected, "broadcast in place, begun")
                same(tensor, expected, "the tensor itself")
    for rows in (0, 1, SIZE, 2 * SIZE + 1):
        inputs = torch.stack([drawn((rows, 2), torch.float32, rank) for rank in range(SIZE)])
        parts = inputs.sum(0).tensor_split(SIZE)
        same(hvd.reducescatter(inputs[RANK], op=hvd.Sum), parts[RANK], "reduce-scatter")
        same(hvd.grouped_reducescatter([inputs[RANK]] * 2)[1], parts[RANK] / SIZE, "reduce-scatter of a group")
        begun = hvd.reducescatter_async(inputs[RANK], op=hvd.Sum, prescale_factor=2.0, postscale_factor=2.0)
        same(hvd.synchronize(begun), parts[RANK] * 4, "reduce-scatter, begun, with factors")


def all_to_alls():
    for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool):
        rows = [[(source + 2 * to) % 3 for to in range(SIZE)] for source in range(SIZE)]
        parts = [[drawn((rows[source][to], 2), torch.int64, source, to).to(dtype) for to in range(SIZE)] for source in range(SIZE)]
        expected = torch.cat([parts[source][RANK] for source in range(SIZE)])
        for tensor in layouts(torch.cat(parts[RANK])):
            found, received = hvd.alltoall(tensor, splits=torch.tensor(rows[RANK]))
            same(found, expected, f"all-to-all of {dtype}")
            same(received, torch.tensor([rows[source][RANK] for source in range(SIZE)], dtype=torch.int32), "its splits")
        found, _ = hvd.synchronize(hvd.alltoall_async(torch.cat(parts[RANK]), rows[RANK]))
        same(found, expected, "all-to-all, begun")
    same(hvd.alltoall(torch.arange(2 * SIZE) + 100 * RANK), torch.cat([torch.arange(2) + 2 * RANK + 100 * rank for rank in range(SIZE)]),
         "all-to-all of equal parts")
    tensor = torch.ones(SIZE, requires_grad=True)
    (hvd.alltoall(tensor) * (RANK + 1.0)).sum().backward()
    same(tensor.grad, torch.arange(SIZE) + 1.0, "gradient of an all-to-all")


def sets():
    """Process sets: sums of some ranks; roots are ranks of all."""
    if SIZE == 1:
        return  # both sets would have the same ranks
    assert hvd.process_set_ids() == [0] and hvd.process_set_by_id(0) is hvd.global_process_set
    evens = hvd.add_process_set(hvd.ProcessSet(range(0, SIZE, 2)))
    last = hvd.add_process_set([SIZE - 1])
    assert hvd.process_set_ids() == [0, 1, 2] and evens.size() == (SIZE + 1) // 2 and evens.included() == (RANK % 2 == 0)
    if evens.included():
        mine = torch.tensor([float(RANK)])
        same(hvd.allreduce(mine, op=hvd.Sum, process_set=evens), torch.tensor([float(sum(range(0, SIZE, 2)))]), "a set's sum")
        root = range(0, SIZE, 2)[-1]
        same(hvd.broadcast(mine, root, process_set=evens), torch.tensor([float(root)]), "a set's root")
        same(hvd.allgather(mine, process_set=evens), torch.arange(0.0, SIZE, 2), "a set's all-gather")
        assert hvd.broadcast_object(RANK, root, process_set=evens) == root and evens.rank() == RANK // 2
        model = torch.nn.Linear(3, 1)
        hvd.broadcast_parameters(model.state_dict(), root, evens)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), process_set=evens)
        before = model.bias.item()
        (model.bias * (RANK + 1.0)).sum().backward()
        optimizer.step()
        assert abs(before - model.bias.item() - (sum(range(0, SIZE, 2)) / evens.size() + 1)) < 1e-5
    else:
        refused(Status.INVALID_ARGUMENT, "is not in the process set", lambda: hvd.allreduce(torch.ones(1), process_set=evens))
    refused(Status.INVALID_ARGUMENT, "was added before", lambda: hvd.add_process_set([SIZE - 1]))
    refused(Status.INVALID_ARGUMENT, "there is no process set 9", lambda: hvd.process_set_by_id(9))
    assert hvd.remove_process_set(evens) and not hvd.remove_process_set(evens) and hvd.process_set_ids() == [0, 2]
    refused(Status.FAILED_PRECONDITION, "was not added", lambda: hvd.allreduce(torch.ones(1), process_set=evens))
    hvd.barrier(last) if last.included() else None


def objects():
    assert hvd.allgather_object({"rank": RANK, "more": [None] * RANK}) == [{"rank": r, "more": [None] * r} for r in range(SIZE)]
    for root in range(SIZE):
        assert hvd.broadcast_object(("from", RANK), root) == ("from", root)
    sparse = torch.sparse_coo_tensor([[0, RANK + 1]], [1.0, 2.0], (SIZE + 1,))
    expected = torch.tensor([float(SIZE)] + [2.0] * SIZE)
    same(hvd.synchronize(hvd.sparse_allreduce_async(sparse, op=hvd.Sum)).to_dense(), expected, "a sparse sum")
    rows = torch.sparse_coo_tensor([[RANK, 4]], torch.full((2, 3), 1.0 + RANK), (5, 3))
    total = hvd.allreduce(rows.to_dense())
    same(hvd.synchronize(hvd.sparse_allreduce_async(rows)).to_dense(), total, "a sparse average of rows")


def gradients():
    """Each collective's gradient, as Horovod's."""
    def gradient(function, weights, shape=(4, 3)):
        tensor = torch.ones(shape, requires_grad=True)
        (function(tensor) * weights).sum().backward()
        return tensor.grad
    ranks = torch.arange(SIZE, dtype=torch.float32) + 1
    weight = torch.full((4, 3), float(RANK + 1))
    same(gradient(lambda t: hvd.allreduce(t, op=hvd.Sum), weight), torch.full((4, 3), ranks.sum()), "gradient of a sum")
    same(gradient(hvd.allreduce, weight), torch.full((4, 3), ranks.mean()), "gradient of an average")
    same(gradient(lambda t: hvd.grouped_allreduce([t, t])[1], weight), torch.full((4, 3), ranks.mean()), "gradient of a group")
    wide = torch.full((4 * SIZE, 3), float(RANK + 1))
    same(gradient(hvd.allgather, wide), torch.full((4, 3), ranks.mean()), "gradient of an all-gather")
    mine = torch.full((4, 3), ranks.mean() if RANK == 0 else 0.0)
    same(gradient(lambda t: hvd.broadcast(t, 0), weight), mine, "gradient of a broadcast")
    part = torch.full((2, 3), float(RANK + 1))
    expected = ranks.repeat_interleave(2).unsqueeze(1).expand(-1, 3).contiguous()
    same(gradient(hvd.reducescatter, part, (2 * SIZE, 3)), expected, "gradient of a reduce-scatter")


def misuse():
    refused(Status.INVALID_ARGUMENT, "splits", lambda: hvd.alltoall(torch.zeros(4), splits=[1] * SIZE + [0]))
    refused(Status.INVALID_ARGUMENT, "torch.int16", lambda: hvd.allreduce(torch.zeros(2, dtype=torch.int16)))
    for call in (lambda it: hvd.broadcast_(it, 0), hvd.allreduce, hvd.allreduce_, hvd.allreduce_async, hvd.allreduce_async_):
        refused(Status.INVALID_ARGUMENT, "is no tensor; torch.as_tensor makes one", lambda: call([1.0]))
    for call in (hvd.allreduce, hvd.allreduce_, hvd.reducescatter):
        refused(Status.INVALID_ARGUMENT, "op is 'sum': give Sum", lambda: call(torch.zeros(SIZE), op="sum"))
    refused(Status.FAILED_PRECONDITION, "join needs calls that are matched by name: all ranks call init(negotiate=True)", hvd.join)
    refused(Status.INVALID_ARGUMENT, "int32", lambda: hvd.allreduce(torch.zeros(2, dtype=torch.int32), op=hvd.Sum, prescale_factor=0.5))
    refused(Status.INVALID_ARGUMENT, "scalar", lambda: hvd.reducescatter(torch.zeros(())))
    go_on = threading.Event()
    first = lockstep.world().begin("twice", go_on.wait)
    refused(Status.ALREADY_EXISTS, "'twice' is outstanding", lambda: hvd.allreduce_async(torch.zeros(2), name="twice"))
    go_on.set()
    first.wait()
    again = hvd.allreduce_async(torch.zeros(2), name="twice")
    hvd.synchronize(again)
    assert hvd.poll(again)


torch.manual_seed(0)
for part in (all_reduces, adasums, factors, moves, all_to_alls, sets, objects, gradients, misuse):
    part()
hvd.barrier()
print("whole")
