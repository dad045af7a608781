"""The MLP 784-128-64-10 in torch: steps/s of the fastest variant, as one JSON line.

One process is one replica with one thread. Two workers are two processes that the caller starts with torch's own
variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); rank 0 prints. Inputs lie in memory as float32, each step takes
the next batch of them; warm-up, compilation included, is not timed.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

BATCH = 64
RATES = {"sgd": 0.01, "adam": 0.001}


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def make_batches(count, rank):
    generator = torch.Generator().manual_seed(rank)
    features = torch.rand(count * BATCH, 784, generator=generator)
    labels = torch.randint(10, (count * BATCH,), generator=generator)
    return list(zip(features.split(BATCH), labels.split(BATCH)))


def make_optimizer(model, kind, rule):
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[rule]
    return make(model.parameters(), lr=RATES[rule], **({kind: True} if kind != "loop" else {"foreach": False}))


def step_with_optimizer(model, kind, rule="sgd"):
    optimizer = make_optimizer(model, kind, rule)

    def step(features, labels):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(features), labels).backward()
        optimizer.step()

    return step


def sgd_by_hand(parameters):
    def update(gradients):
        for parameter, gradient in zip(parameters, gradients):
            parameter.sub_(gradient, alpha=RATES["sgd"])

    return update


def adam_by_hand(parameters):
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    count = torch.zeros(())

    def update(gradients):
        count.add_(1)
        rate = RATES["adam"] * torch.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        for parameter, gradient, m, v in zip(parameters, gradients, first, second):
            m.lerp_(gradient, 0.1)
            v.lerp_(gradient * gradient, 0.001)
            parameter.sub_(rate * m / (v.sqrt() + 1e-7))

    return update


def step_with_gradients(model, compiled, rule):
    """Gradients as values, the update by hand: no optimizer object, and one program when compiled."""
    parameters = list(model.parameters())
    update = {"sgd": sgd_by_hand, "adam": adam_by_hand}[rule](parameters)

    def step(features, labels):
        loss = F.cross_entropy(model(features), labels)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            update(gradients)

    return torch.compile(step) if compiled else step


def step_with_flat_all_reduce(model, compiled, world):
    """Two workers without DistributedDataParallel: all gradients in one vector, one all-reduce a step."""
    parameters = list(model.parameters())
    sizes = [parameter.numel() for parameter in parameters]

    def gradients(features, labels):
        loss = F.cross_entropy(model(features), labels)
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, parameters)])

    def update(flat):
        with torch.no_grad():
            for parameter, gradient in zip(parameters, flat.split(sizes)):
                parameter.sub_(gradient.view_as(parameter), alpha=0.01 / world)

    if compiled:
        gradients, update = torch.compile(gradients), torch.compile(update)

    def step(features, labels):
        flat = gradients(features, labels)
        dist.all_reduce(flat)
        update(flat)

    return step


def step_with_ddp(model, kind, compiled):
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    return step_with_optimizer(torch.compile(model) if compiled else model, kind)


def variants(world, rule):
    """Name -> a function that makes the step from a model."""
    if world > 1:
        return {
            "DDP, SGD foreach": lambda m: step_with_ddp(m, "foreach", False),
            "DDP, SGD fused": lambda m: step_with_ddp(m, "fused", False),
            "DDP, compiled, SGD fused": lambda m: step_with_ddp(m, "fused", True),
            "one flat all_reduce": lambda m: step_with_flat_all_reduce(m, False, world),
            "one flat all_reduce, compiled": lambda m: step_with_flat_all_reduce(m, True, world),
        }
    return {
        "eager, optimizer loop": lambda m: step_with_optimizer(m, "loop", rule),
        "eager, optimizer foreach": lambda m: step_with_optimizer(m, "foreach", rule),
        "eager, optimizer fused": lambda m: step_with_optimizer(m, "fused", rule),
        "eager, gradients by hand": lambda m: step_with_gradients(m, False, rule),
        "compiled model, optimizer fused": lambda m: step_with_optimizer(torch.compile(m), "fused", rule),
        "compiled step": lambda m: step_with_gradients(m, True, rule),
    }


def measure(step, batches, steps):
    if dist.is_initialized():
        dist.barrier()
    started = time.perf_counter()
    for i in range(steps):
        step(*batches[i % len(batches)])
    return steps / (time.perf_counter() - started)


def measure_variant(make_step, batches, steps, repeats):
    model = make_model()
    step = make_step(model)
    measure(step, batches, min(steps, 100))  # warm-up
    rate = max(measure(step, batches, steps) for _ in range(repeats))
    if not all(bool(torch.isfinite(p).all()) for p in model.parameters()):
        raise RuntimeError("the weights are not finite")
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optimizer", choices=RATES, default="sgd", help="adam: one process only")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=128, help="different batches a replica")
    parser.add_argument("--variant", help="only this one (default: all, the fastest is reported)")
    parser.add_argument("--repeats", type=int, default=1, help="measure so many times, keep the best")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    batches = make_batches(arguments.batches, rank)
    tried, failed = {}, {}
    for name, make_step in variants(world, arguments.optimizer).items():
        if arguments.variant and name != arguments.variant:
            continue
        try:
            tried[name] = measure_variant(make_step, batches, arguments.steps, arguments.repeats)
        except Exception as error:  # a variant that this build cannot run; every rank meets the same refusal
            failed[name] = " ".join(f"{type(error).__name__}: {error}".split())[:160]
    if world > 1:
        dist.destroy_process_group()
    if not tried:
        sys.exit(f"torch_mlp: no variant ran: {failed}")
    best = max(tried, key=tried.get)
    if rank == 0:
        print(json.dumps({"steps_per_second": tried[best], "variant": best, "tried": tried, "failed": failed}))


if __name__ == "__main__":
    main()
