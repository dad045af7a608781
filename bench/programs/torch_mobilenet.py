"""MobileNetV2 at 224 x 224 in torch, channels last: images/s and peak memory, as one JSON line.

usage: torch_mobilenet.py BATCH THREADS STEPS eager|compiled"""
import json
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def convolution(inside, outside, size, stride=1, groups=1, activate=True):
    layers = [nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False),
              nn.BatchNorm2d(outside, 1e-3, 0.001)]
    return nn.Sequential(*layers, *([nn.ReLU6(inplace=True)] if activate else []))


class Block(nn.Module):
    def __init__(self, inside, outside, stride, expansion):
        super().__init__()
        wide = inside * expansion
        expand = [convolution(inside, wide, 1)] if expansion > 1 else []
        self.body = nn.Sequential(*expand, convolution(wide, wide, 3, stride, wide),
                                  convolution(wide, outside, 1, activate=False))
        self.adds = stride == 1 and inside == outside

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inside = [convolution(3, 32, 3, 2)], 32
        for expansion, outside, count, stride in STAGES:
            for i in range(count):
                layers.append(Block(inside, outside, 1 if i else stride, expansion))
                inside = outside
        self.features = nn.Sequential(*layers, convolution(320, 1280, 1))
        self.predictions = nn.Linear(1280, 2)

    def forward(self, x):
        return self.predictions(self.features(x).mean((2, 3)))


def main():
    batch, threads, steps = map(int, sys.argv[1:4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = MobileNetV2().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, foreach=True)
    images = (torch.rand(batch, 3, 224, 224) * 2 - 1).contiguous(memory_format=torch.channels_last)
    labels = torch.arange(batch) % 2
    forward = torch.compile(model) if sys.argv[4] == "compiled" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    step()
    started = time.perf_counter()
    for _ in range(steps):
        loss = step()
    seconds = time.perf_counter() - started
    print(json.dumps({"images_per_second": batch * steps / seconds, "loss": loss.item(),
                      "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


main()
