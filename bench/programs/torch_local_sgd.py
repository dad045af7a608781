"""The MLP 784-128-64-10 in torch, with averaging every so many steps (PeriodicModelAverager of post-local SGD), or in step
(DistributedDataParallel, --every 0): examples/s of all workers, as one JSON line of rank 0. The caller sets RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT. Start and warm-up are not timed."""
import argparse
import json
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch_mlp import BATCH, make_batches, make_model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model, batches = make_model(), make_batches(15, dist.get_rank())
    trained = model if options.every else torch.nn.parallel.DistributedDataParallel(model)
    averager = PeriodicModelAverager(period=options.every, warmup_steps=0) if options.every else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number):
        features, labels = batches[number % len(batches)]
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(trained(features), labels).backward()
        optimizer.step()
        if averager:
            averager.average_parameters(model.parameters())

    for number in range(max(options.every, 5)):
        step(number)
    dist.barrier()
    begun = time.perf_counter()
    for number in range(options.steps):
        step(number)
    dist.barrier()
    seconds = time.perf_counter() - begun
    if dist.get_rank() == 0:
        print(json.dumps({"examples_per_second": options.steps * BATCH * dist.get_world_size() / seconds}))
    dist.destroy_process_group()


main()
