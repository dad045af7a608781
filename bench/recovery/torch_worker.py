"""One worker of bench/recovery on torch's side: the MLP 784-128-64-10 under DistributedDataParallel over gloo, started
by torchrun. Rank 0 writes the checkpoint, all load it."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F

from log import CHECKPOINT_STEPS, Log, parse

BATCH, BATCHES = 64, 10


def save(path, step, model, optimizer):
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".new")
    os.replace(path + ".new", path)


def restore(path, model, optimizer):
    """The number of the last step in the checkpoint."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def make_model():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(),
                                torch.nn.Linear(64, 10))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train(options, log, rank, model, optimizer):
    generator = torch.Generator().manual_seed(rank)
    features = torch.rand(BATCHES, BATCH, 784, generator=generator)
    labels = torch.randint(10, (BATCHES, BATCH), generator=generator)
    done = restore(options.checkpoint, model, optimizer)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    for step in range(done + 1, options.steps + 1):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(parallel(features[step % BATCHES]), labels[step % BATCHES]).backward()
        optimizer.step()
        log.end_step(step)
        if step % CHECKPOINT_STEPS == 0 and rank == 0:
            save(options.checkpoint, step, model, optimizer)


def main():
    options = parse(__doc__)
    rank = int(os.environ["RANK"])
    log = Log(options.log, rank, options.period)
    torch.set_num_threads(1)
    model, optimizer = make_model()  # the first optimizer imports much of torch
    log.write_loaded()
    dist.init_process_group("gloo")
    log.enter_training()
    train(options, log, rank, model, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
