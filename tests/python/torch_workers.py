"""One rank of a training with a DataLoader's workers, which are forked, that ends in the way that the argument names."""
import os
import signal
import sys
import threading
import time

import torch

import lockstep.torch as hvd

hvd.init()
how, rank = sys.argv[1], hvd.rank()
model = torch.nn.Linear(3, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
loader = torch.utils.data.DataLoader(torch.randn(64, 3), batch_size=4, num_workers=2, persistent_workers=True,
                                     multiprocessing_context="fork")
batches = iter(loader)


def step():
    optimizer.zero_grad()
    model(next(batches)).sum().backward()
    optimizer.step()


for _ in range(3):
    step()
if rank == 1 and how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 1 and how == "interrupted":
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
if rank == 0 and how == "interrupted":
    time.sleep(1.5)
begun = time.monotonic()
try:
    step()
    print(f"whole {next(batches).shape[0]}", flush=True)
finally:
    print(f"ended after {time.monotonic() - begun:.3f}", flush=True)
