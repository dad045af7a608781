"""One rank of a group that matches calls by their names: orders of its own on each rank, and join with uneven steps."""
import random

import torch

import lockstep.torch as hvd
from lockstep import LockstepError, Status

hvd.init(negotiate=True)
RANK, SIZE = hvd.rank(), hvd.size()

for turn in range(5):
    names = [f"tensor {i}" for i in range(8)]
    random.Random(RANK * 10 + turn).shuffle(names)
    handles = {name: hvd.allreduce_async(torch.full((3,), float(name[-1]) + RANK), name=name, op=hvd.Sum) for name in names}
    random.shuffle(names)
    for name in names:
        expected = torch.full((3,), SIZE * float(name[-1]) + sum(range(SIZE)))
        assert torch.equal(hvd.synchronize(handles[name]), expected), name
        assert hvd.poll(handles[name])

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
for step in range(2 + RANK):  # the last rank has the most
    optimizer.zero_grad()
    (model(torch.ones(1, 4)).sum() * (RANK + 1.0)).backward()
    optimizer.step()
    active = [rank + 1.0 for rank in range(SIZE) if step < 2 + rank]
    assert torch.allclose(model.bias.grad, torch.full((2,), sum(active) / len(active))), (step, model.bias.grad)
assert hvd.join() == SIZE - 1
numbers = hvd.allreduce(torch.ones(1), op=hvd.Sum)
assert numbers.item() == SIZE
print("whole")
