"""One rank of a training that loses ranks amid, and ends with the weights of an undisturbed one. argv: who dies ("rank:step"
or "-")."""
import os
import signal
import sys

import torch
from torch.nn import functional as F

import lockstep.torch as hvd

EPOCHS, BATCH = 3, 4
first = os.environ.get("LOCKSTEP_RESTART_COUNT", "0") == "0"
hvd.init()
torch.manual_seed(hvd.rank() + (0 if first else 100))
data = torch.randn(48, 5, generator=torch.Generator().manual_seed(1))
labels = (data.sum(1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
if hvd.rank() == 0 and first:
    torch.manual_seed(4)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2)
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
sampler = hvd.elastic.ElasticSampler(labels, seed=9)
resets, seen = [], []
steps = 0


def die(step):
    if first and sys.argv[1] == f"{hvd.rank()}:{step}":
        os.kill(os.getpid(), signal.SIGKILL)


@hvd.elastic.run
def train(state):
    while state.epoch < EPOCHS:
        if state.batch == 0:
            state.sampler.set_epoch(state.epoch)
        own = list(iter(state.sampler))
        for begin in range(0, len(own), BATCH):
            chosen = own[begin:begin + BATCH]
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data[chosen]), labels[chosen])
            die(state.step)
            loss.backward()
            optimizer.step()
            state.sampler.record_batch(begin // BATCH, len(chosen))
            state.batch += 1
            state.step += 1
            if state.step % 2 == 0:
                state.commit()
        state.epoch, state.batch = state.epoch + 1, 0
        schedule.step()
        state.commit()


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, schedule=schedule, sampler=sampler, epoch=0, batch=0, step=0)
state.register_reset_callbacks([lambda: resets.append(hvd.size())])
train(state)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
everybody = hvd.allgather_object(total)
assert all(other == everybody[0] for other in everybody), everybody
assert state.step == EPOCHS * 48 // (BATCH * hvd.size()), state.step
print(f"whole {total.hex()} lr {optimizer.param_groups[0]['lr']} resets {len(resets)}")
