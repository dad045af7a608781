"""One of the processes of bench/python: argv: gloo, lockstep, c10d or alone, and the seconds of each measurement. Rank 0
prints one JSON object: microseconds of a call by its size, steps a second of two networks."""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

VARIANT, SECONDS = sys.argv[1], float(sys.argv[2])
torch.set_num_threads(1)


def start():
    if VARIANT == "alone":
        return int(os.environ["RANK"]), 1
    if VARIANT == "gloo":
        path = f"/tmp/bench-python-{os.environ['LOCKSTEP_RUN_ID']}"
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]))
        return dist.get_rank(), dist.get_world_size()
    if VARIANT == "c10d":
        import lockstep.torch.c10d
        dist.init_process_group("lockstep")
        return dist.get_rank(), dist.get_world_size()
    import lockstep.torch as hvd
    hvd.init()
    return hvd.rank(), hvd.size()


RANK, SIZE = start()


def all_reduce(tensor):
    if VARIANT == "lockstep":
        import lockstep.torch as hvd
        hvd.allreduce_(tensor, op=hvd.Sum)
    else:
        dist.all_reduce(tensor)


def agreed(number):
    """The largest of all ranks: how often to repeat."""
    tensor = torch.tensor([float(number)])
    if VARIANT == "alone":
        return int(number)
    if VARIANT == "lockstep":
        import lockstep.torch as hvd
        return int(hvd.allreduce(tensor, op=hvd.Max).item())
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return int(tensor.item())


def seconds_of(function):
    """Of one call, the best of three runs of a share of SECONDS."""
    for _ in range(3):
        function()
    begun = time.perf_counter()
    function()
    count = max(3, agreed(SECONDS / 3 / max(1e-6, time.perf_counter() - begun)))
    found = []
    for _ in range(3):
        begun = time.perf_counter()
        for _ in range(count):
            function()
        found.append((time.perf_counter() - begun) / count)
    return min(found)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 32, 3), nn.Conv2d(32, 32, 3)
        self.d = nn.Linear(32 * 5 * 5, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        x = F.max_pool2d(F.relu(self.b(x)), 2)
        return self.d(F.relu(self.c(F.pad(x, (1, 0, 1, 0)))).flatten(1))


NETWORKS = {
    "MLP": (lambda: nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)), (64, 784)),
    "CNN": (Small, (16, 3, 32, 32)),
}


def step_of(name):
    """One training step as a function."""
    torch.manual_seed(1)
    make, shape = NETWORKS[name]
    model = make()
    x, y = torch.randn(shape), torch.randint(0, 10, shape[:1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if VARIANT == "lockstep":
        import lockstep.torch as hvd
        hvd.broadcast_parameters(model.state_dict(), 0)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    elif VARIANT != "alone":
        model = nn.parallel.DistributedDataParallel(model)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return step


def overhead():
    """Microseconds that Python adds to a call: the same call by a bare ctypes function, whose arguments are ready."""
    import lockstep
    from lockstep._library import AllReduce
    world = lockstep.world()
    tensor = torch.zeros(16)
    function, handle, memory = world._lib.ls_all_reduce, world._need(), tensor.data_ptr()
    options = AllReduce(b"bare", memory, memory, 16)
    bare = seconds_of(lambda: function(handle, options))
    import lockstep.torch as hvd
    return {"call, bare ctypes [us]": bare * 1e6, "call, hvd.allreduce_ [us]": seconds_of(lambda: hvd.allreduce_(tensor)) * 1e6}


found = {}
for size in (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20) if VARIANT != "alone" else ():
    tensor = torch.ones(size // 4)
    found[f"all-reduce {size >> 10} KB [us]"] = seconds_of(lambda: all_reduce(tensor)) * 1e6
for name in NETWORKS:
    found[f"{name} steps/s"] = 1 / seconds_of(step_of(name))
if VARIANT == "lockstep":
    found.update(overhead())
if RANK == 0:
    print(json.dumps(found))
if VARIANT in ("gloo", "c10d"):
    dist.destroy_process_group()
