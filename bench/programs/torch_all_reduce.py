"""All-reduce (float32, sum, in place) of torch's gloo backend: one JSON line with the time of each size, for bench/peers.

Every process is started by the caller with torch's own variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); rank 0
prints. Checked and timed like mpi_all_reduce.c.
"""
import time

import torch
import torch.distributed as dist

from all_reduce import run_sizes

PERIOD = 1021


class Gloo:
    def __init__(self):
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        self.token = torch.zeros(1)

    def allocate(self, count):
        self.vector = torch.empty(count)
        self.pattern = torch.arange(count, dtype=torch.int64).remainder_(PERIOD).to(torch.float32)
        self.filling = self.pattern + self.rank

    def fill(self):
        self.vector.copy_(self.filling)

    def clear(self):
        self.vector.zero_()

    def meet(self):
        dist.all_reduce(self.token)

    def reduce(self):
        start = time.perf_counter()
        dist.all_reduce(self.vector)
        return time.perf_counter() - start

    def count_wrong(self):
        expected = self.pattern * self.workers + self.workers * (self.workers - 1) // 2
        wrong = (self.vector != expected).sum()
        dist.all_reduce(wrong)
        return int(wrong)

    def slowest(self, values):
        times = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        return times.tolist()

    def total(self, value):
        sum = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(sum)
        return float(sum)


run_sizes(__doc__, Gloo)
dist.destroy_process_group()
