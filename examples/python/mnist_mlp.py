"""An MLP on digits in torch, trained by all ranks: lockstep run -np 2 -- python3 mnist_mlp.py

It is written for Horovod; only the import is lockstep's. The digits are drawn, 8 x 8 pixels: each is a
pattern under noise."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import lockstep.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--workers", type=int, default=0, help="processes of the DataLoader")
args = parser.parse_args()

hvd.init()
torch.manual_seed(42)

patterns = torch.rand(10, 64)
labels = torch.randint(0, 10, (1800,))
images = patterns[labels] + 0.4 * torch.randn(1800, 64)
train = TensorDataset(images[:1500], labels[:1500])
sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler, num_workers=args.workers)

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

for epoch in range(args.epochs):
    model.train()
    sampler.set_epoch(epoch)
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(images[1500:]).argmax(1) == labels[1500:]).float().mean()
    accuracy = hvd.allreduce(right, name="accuracy").item()
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, accuracy {accuracy:.4f}")

everybody = hvd.allgather_object([p.double().sum().item() for p in model.parameters()])
assert all(other == everybody[0] for other in everybody), "the ranks have different weights"
