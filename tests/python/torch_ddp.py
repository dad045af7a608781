"""One rank: torch's DistributedDataParallel over the backend of argv[1]; the weights after 50 steps, and the mean loss of the
ranks in each step, go to the file argv[2].
With lockstep also every other call of torch.distributed that it has."""
import sys

import torch
import torch.distributed as dist

backend, path = sys.argv[1], sys.argv[2]
if backend == "lockstep":
    import lockstep.torch.c10d
dist.init_process_group(backend)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def train():
    torch.manual_seed(RANK)  # DDP itself broadcasts rank 0's weights
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.BatchNorm1d(128), torch.nn.Linear(128, 10))
    wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.02, momentum=0.5)
    generator = torch.Generator().manual_seed(7)
    x, y = torch.randn(50, 64, 64, generator=generator), torch.randint(0, 10, (50, 64), generator=generator)
    losses = torch.zeros(50)
    for step in range(50):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(wrapped(x[step, RANK::SIZE]), y[step, RANK::SIZE])
        loss.backward()
        losses[step] = loss.item() / SIZE
        optimizer.step()
    dist.all_reduce(losses)
    return [*(p.detach() for p in model.parameters()), losses]


def same(found, expected):
    if not torch.equal(torch.as_tensor(found), torch.as_tensor(expected)):
        raise AssertionError(f"{found} is not {expected}")


def calls():
    ranks = torch.arange(SIZE, dtype=torch.float32)
    for op, expected in ((dist.ReduceOp.SUM, ranks.sum()), (dist.ReduceOp.AVG, ranks.mean()), (dist.ReduceOp.MAX, SIZE - 1.0)):
        mine = torch.full((2, 3), float(RANK))
        dist.all_reduce(mine, op)
        same(mine, torch.full((2, 3), float(expected)))
    work = dist.all_reduce(torch.ones(1 << 16), async_op=True)
    work.wait()
    assert work.is_completed() and work.result()[0][5] == SIZE
    mine = torch.tensor([RANK])
    dist.reduce(mine, SIZE - 1)
    same(mine, torch.tensor([sum(range(SIZE)) if RANK == SIZE - 1 else RANK]))
    parts = [torch.zeros(2) for _ in range(SIZE)]
    dist.all_gather(parts, torch.full((2,), float(RANK)))
    same(torch.stack(parts)[:, 0], ranks)
    flat = torch.zeros(2 * SIZE)
    dist.all_gather_into_tensor(flat, torch.full((2,), float(RANK)))
    same(flat, ranks.repeat_interleave(2))
    part = torch.zeros(2)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * SIZE))
    same(part, SIZE * torch.tensor([2.0 * RANK, 2.0 * RANK + 1]))
    dist.reduce_scatter(part, [torch.full((2,), float(rank)) for rank in range(SIZE)])
    same(part, torch.full((2,), float(SIZE * RANK)))
    gathered = [torch.zeros(1) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(torch.full((1,), float(RANK)), gathered, dst=0)
    if RANK == 0:
        same(torch.cat(gathered), ranks)
    dist.scatter(part, [torch.full((2,), 7.0 + rank) for rank in range(SIZE)] if RANK == 0 else None, src=0)
    same(part, torch.full((2,), 7.0 + RANK))
    found = [None] * SIZE
    dist.all_gather_object(found, {"rank": RANK})
    assert found == [{"rank": rank} for rank in range(SIZE)]
    listed = [RANK, None]
    dist.broadcast_object_list(listed, src=0)
    assert listed == [0, None]
    whole = torch.arange(float(SIZE)) + 10 * RANK
    exchanged = torch.zeros(SIZE)
    dist.all_to_all_single(exchanged, whole)
    same(exchanged, 10 * ranks + RANK)
    listed = [torch.zeros(rank + RANK) for rank in range(SIZE)]
    dist.all_to_all(listed, [torch.full((rank + RANK,), float(RANK)) for rank in range(SIZE)])
    same(torch.cat(listed), torch.cat([torch.full((rank + RANK,), float(rank)) for rank in range(SIZE)]))
    got = torch.zeros(1 << 18)
    sent = dist.isend(torch.full((1 << 18,), float(RANK)), (RANK + 1) % SIZE, tag=3)
    dist.recv(got, (RANK - 1) % SIZE, tag=3)
    sent.wait()
    same(got, torch.full((1 << 18,), float((RANK - 1) % SIZE)))
    pair = dist.new_group([0, SIZE - 1])
    ones = torch.ones(3)
    if RANK in (0, SIZE - 1):
        dist.all_reduce(ones, group=pair)
        same(ones, torch.full((3,), 2.0))
    dist.barrier()


weights = train()
if backend == "lockstep" and SIZE > 1:
    calls()
if RANK == 0:
    torch.save(weights, path)
dist.destroy_process_group()
print("whole")
