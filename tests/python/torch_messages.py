"""One rank: torch.distributed's messages: receives before sends, batches of both, and a pipeline of stages, against gloo's rules."""
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import lockstep.torch.c10d

dist.init_process_group("lockstep")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
NEXT, LAST = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def receives_first():
    for count in (1, 1 << 20):  # the second is more than a link holds
        mine, got = torch.full((count,), float(RANK)), torch.zeros(count)
        works = [dist.irecv(got, LAST), dist.isend(mine, NEXT)]
        for work in works:
            work.wait()
        assert torch.equal(got, torch.full((count,), float(LAST))) and works[0].result()[0] is not None
    rows = torch.zeros(4, 3)
    work = dist.irecv(rows.t(), LAST, tag=2)  # not contiguous
    assert not work.is_completed()  # nobody sends before all have come to the all-reduce
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == SIZE
    dist.isend(torch.arange(12.0).view(3, 4), NEXT, tag=2)
    work.wait()
    assert torch.equal(rows, torch.arange(12.0).view(3, 4).t()), rows


def batches():
    for tag in (0, 5):
        got = [torch.zeros(3) for _ in range(SIZE)]
        ops = []
        for other in range(SIZE):
            if other != RANK:
                ops += [dist.P2POp(dist.irecv, got[other], other, tag=tag),
                        dist.P2POp(dist.isend, torch.full((3,), 10.0 * RANK + other), other, tag=tag)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert all(torch.equal(got[other], torch.full((3,), 10.0 * other + RANK)) for other in range(SIZE) if other != RANK), got


def pipeline():
    """A stage a rank: the loss and the gradients are those of the whole model."""
    torch.manual_seed(1)
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(SIZE))
    x, y, loss = torch.randn(6, 4), torch.randn(6, 4), torch.nn.functional.mse_loss
    found = x
    for layer in layers:
        found = layer(found)
    parts = [loss(part, target) for part, target in zip(found.chunk(3), y.chunk(3))]
    torch.stack(parts).mean().backward()
    expected = layers[RANK].weight.grad.clone()
    layers.zero_grad()
    schedule = ScheduleGPipe(PipelineStage(layers[RANK], RANK, SIZE, torch.device("cpu")), n_microbatches=3, loss_fn=loss)
    for _ in range(2):
        layers.zero_grad()
        losses = []
        schedule.step(*([x] if RANK == 0 else []), **({"target": y, "losses": losses} if RANK == SIZE - 1 else {}))
    assert torch.allclose(layers[RANK].weight.grad, expected, atol=1e-6), (layers[RANK].weight.grad, expected)
    assert RANK < SIZE - 1 or torch.allclose(torch.stack(losses), torch.stack(parts), atol=1e-6)


receives_first()
batches()
pipeline()
pair = dist.new_group([0, SIZE - 1])
if RANK in (0, SIZE - 1):
    other = SIZE - 1 - RANK
    got = torch.zeros(1)
    works = [dist.irecv(got, other, group=pair), dist.isend(torch.tensor([float(RANK)]), other, group=pair)]
    for work in works:
        work.wait()
    assert got.item() == other
dist.barrier()
dist.destroy_process_group()
print("whole")
