"""A GPT in torch over several processes on gloo: milliseconds a step by the clock and of all processors, bytes of moments and
gradients, peak memory, and bytes that a process sends, as one JSON line. It starts its processes itself. The first steps are not timed.

usage: torch_shard.py PROCESSES ddp|zero1|fsdp|fsdp-reshard|pipeline VOCABULARY LAYERS HEADS WIDTH CONTEXT BATCH STEPS

fsdp keeps gathered variables from forward to backward, and fsdp-reshard gathers them again. pipeline has as many stages as
processes, in the order 1F1B over 4 micro-batches; its head has weights of its own."""
import json
import os
import resource
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel
from torch_gpt import GPT

WARM, MICRO_BATCHES = 3, 4
RULE = {"lr": 1e-3, "weight_decay": 0.1}


class Stage(nn.Module):
    """Of a pipeline: every so many blocks, with the embeddings in the first one and the head in the last one."""

    def __init__(self, model, rank, count):
        super().__init__()
        share = len(model.blocks) // count
        self.first, self.last = rank == 0, rank == count - 1
        if self.first:
            self.tokens, self.positions = model.tokens, model.positions
        self.blocks = model.blocks[rank * share:(rank + 1) * share]
        if self.last:
            self.norm, self.head = model.norm, model.head
            self.head.weight = nn.Parameter(model.head.weight.detach().clone())

    def forward(self, x):
        if self.first:
            x = self.tokens(x) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.last else x


def find_loss(logits, labels):
    return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.reshape(-1))


class Replicas:
    """Each process computes its rows."""

    def __init__(self, model, kind, rank, count):
        self.rank, self.count = rank, count
        if kind.startswith("fsdp"):
            mesh, again = init_device_mesh("cpu", (count,)), kind == "fsdp-reshard"
            for part in (*model.blocks, model):
                fully_shard(part, mesh=mesh, reshard_after_forward=again)
        self.trained = model if kind.startswith("fsdp") else DistributedDataParallel(model)
        self.parameters = list(model.parameters())
        self.optimizer = (ZeroRedundancyOptimizer(self.parameters, torch.optim.AdamW, **RULE) if kind == "zero1"
                          else torch.optim.AdamW(self.parameters, **RULE))
        self.kept = self.optimizer.optim if kind == "zero1" else self.optimizer

    def backward(self, tokens):
        share = len(tokens) // self.count
        own = tokens[self.rank * share:(self.rank + 1) * share]
        loss = self.trained(own[:, :-1].contiguous(), own[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        return loss


class Pipeline:
    def __init__(self, model, kind, rank, count):
        self.rank, self.count = rank, count
        stage = Stage(model, rank, count)
        self.parameters = list(stage.parameters())
        self.optimizer = self.kept = torch.optim.AdamW(self.parameters, **RULE)
        self.schedule = Schedule1F1B(PipelineStage(stage, rank, count, torch.device("cpu")), MICRO_BATCHES, loss_fn=find_loss)

    def backward(self, tokens):
        losses = []
        inputs = (tokens[:, :-1].contiguous(),) if self.rank == 0 else ()
        last = {"target": tokens[:, 1:].contiguous(), "losses": losses} if self.rank == self.count - 1 else {}
        self.schedule.step(*inputs, **last)
        return torch.stack(losses).mean() if losses else torch.zeros(())


def count_bytes(tensors):
    locals_ = [each.to_local() if hasattr(each, "to_local") else each for each in tensors if each is not None]
    return sum(each.nbytes for each in locals_)


def count_sent():
    """Bytes that have left through the loopback interface of this network namespace."""
    with open("/proc/net/dev", encoding="ascii") as file:
        return next(int(line.split(":")[1].split()[8]) for line in file if line.strip().startswith("lo:"))


def measure(rank, count, kind, numbers):
    vocabulary, layers, heads, width, context, batch, steps = numbers
    torch.set_num_threads(1)
    torch.manual_seed(1)
    training = (Pipeline if kind == "pipeline" else Replicas)(GPT(vocabulary, layers, heads, width, context), kind, rank, count)
    data = torch.randint(vocabulary, (WARM + steps, batch, context + 1), generator=torch.Generator().manual_seed(1))
    for number, tokens in enumerate(data):
        if number == WARM:
            dist.barrier()
            begun, before, sent = time.perf_counter(), time.process_time(), count_sent()
        loss = training.backward(tokens)
        gradients = count_bytes(each.grad for each in training.parameters)
        training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=True)
    used = time.process_time() - before
    dist.barrier()
    seconds, sent = time.perf_counter() - begun, count_sent() - sent
    states = [each for state in training.kept.state.values() for each in state.values() if torch.is_tensor(each) and each.dim()]
    return {"milliseconds": 1e3 * seconds / steps, "processor_milliseconds": 1e3 * used / steps, "moment_bytes": count_bytes(states),
            "gradient_bytes": gradients, "sent_bytes": sent / steps / count, "loss": loss.item(),
            "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}


def run_rank(rank, count, kind, numbers):
    dist.init_process_group("gloo")
    own = measure(rank, count, kind, numbers)
    gathered = [None] * count
    dist.all_gather_object(gathered, own)
    if rank == 0:
        most = {key: max(each[key] for each in gathered) for key in own}
        print(json.dumps({**most, "processor_milliseconds": sum(each["processor_milliseconds"] for each in gathered)}), flush=True)
    dist.destroy_process_group()


def main():
    count, kind = int(sys.argv[1]), sys.argv[2]
    if "RANK" in os.environ:
        run_rank(int(os.environ["RANK"]), count, kind, list(map(int, sys.argv[3:])))
        return
    group = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **group, "RANK": str(rank)}) for rank in range(count)]
    sys.exit(max(abs(rank.wait()) for rank in ranks))


main()
