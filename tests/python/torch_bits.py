"""One rank: DistributedDataParallel over lockstep's backend, then DistributedOptimizer with gradients of two types; the weights go
to the file argv[1]."""
import sys

import torch
import torch.distributed as dist

import lockstep.torch as hvd
import lockstep.torch.c10d

dist.init_process_group("lockstep")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
assert (hvd.rank(), hvd.size()) == (RANK, SIZE)
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(40, 300), torch.nn.ReLU(), torch.nn.Linear(300, 700), torch.nn.ReLU(),
                            torch.nn.Linear(700, 10))
generator = torch.Generator().manual_seed(8)


def train(module, optimizer, scale=1.0):
    for step in range(10):
        x, y = torch.randn(32, 40, generator=generator), torch.randint(0, 10, (32,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x[RANK::SIZE]) * scale, y[RANK::SIZE]).backward()
        optimizer.step()


wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.2)
train(wrapped, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
del wrapped
scale = torch.nn.Parameter(torch.ones(10, dtype=torch.float64))
named = [*model.named_parameters(), ("scale", scale)]
train(model, hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=0.1, momentum=0.9), named), scale)
if RANK == 0:
    torch.save([p.detach().double() for _, p in named], sys.argv[1])
dist.destroy_process_group()
print("whole")
