"""A small CNN in torch with fp16 on the wire and two backward passes a step: lockstep run -np 2 -- python3 cnn_fp16.py

It is written for Horovod; only the import is lockstep's. The images are drawn: each class is a pattern under noise."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import lockstep.torch as hvd

CLASSES, SIDE, EXAMPLES, PASSES = 5, 12, 640, 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.norm = hvd.SyncBatchNorm(8)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.fc = nn.Linear(16 * 4 * 4, CLASSES)

    def forward(self, x):
        x = F.relu(self.norm(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


hvd.init()
torch.manual_seed(1234)
patterns = torch.randn(CLASSES, 1, SIDE, SIDE)
labels = torch.randint(0, CLASSES, (EXAMPLES,))
images = patterns[labels] + 0.8 * torch.randn(EXAMPLES, 1, SIDE, SIDE)
data = torch.utils.data.TensorDataset(images, labels)
sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
loader = torch.utils.data.DataLoader(data, batch_size=10, sampler=sampler, drop_last=True)

torch.manual_seed(hvd.rank())
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.fp16,
                                     backward_passes_per_step=PASSES)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

for epoch in range(4):
    sampler.set_epoch(epoch)
    total = torch.zeros(2)
    for step, (image, label) in enumerate(loader):
        if step % PASSES == 0:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(image), label) / PASSES
        loss.backward()
        if step % PASSES == PASSES - 1:
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            with optimizer.skip_synchronize():
                optimizer.step()
        total += torch.tensor([loss.item() * PASSES, 1.0])
    schedule.step()
    total = hvd.allreduce(total, op=hvd.Sum)
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {total[0] / total[1]:.4f}, lr {schedule.get_last_lr()[0]:.5f}")

everybody = hvd.allgather_object([p.double().sum().item() for p in model.parameters()])
assert all(other == everybody[0] for other in everybody), "the ranks have different weights"
