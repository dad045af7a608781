"""MobileNetV2 or ResNet-50 on a GPU in torch, channels last: images/s, the loss and the most memory that its
allocator gave out at once, as one JSON line.

usage: torch_gpu.py mobilenet_v2|resnet50 float32|tf32|mixed_bfloat16|mixed_float16 BATCH STEPS CLASSES eager|compiled
       IMAGE-SIZE"""
import contextlib
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"mobilenet_v2": [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                          (6, 320, 1, 1)],
         "resnet50": [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]}


def convolution(inside, outside, size, stride=1, groups=1, activation=None):
    layers = [nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outside)]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


class Residual(nn.Module):
    def __init__(self, body, beside, activation):
        super().__init__()
        self.body, self.beside, self.activation = body, beside, activation

    def forward(self, x):
        y = self.body(x)
        if self.beside is not None:
            y = y + self.beside(x)
        return self.activation(y) if self.activation else y


def inverted(inside, outside, stride, expansion):
    wide = inside * expansion
    expand = [convolution(inside, wide, 1, activation=nn.ReLU6)] if expansion > 1 else []
    body = nn.Sequential(*expand, convolution(wide, wide, 3, stride, wide, nn.ReLU6), convolution(wide, outside, 1))
    return Residual(body, nn.Identity() if stride == 1 and inside == outside else None, None)


def bottleneck(inside, width, stride):
    body = nn.Sequential(convolution(inside, width, 1, stride, activation=nn.ReLU),
                         convolution(width, width, 3, activation=nn.ReLU), convolution(width, 4 * width, 1))
    beside = nn.Identity() if inside == 4 * width else convolution(inside, 4 * width, 1, stride)
    return Residual(body, beside, nn.ReLU(inplace=True))


def make_mobilenet(classes):
    layers, inside = [convolution(3, 32, 3, 2, activation=nn.ReLU6)], 32
    for expansion, outside, count, stride in SIZES["mobilenet_v2"]:
        for i in range(count):
            layers.append(inverted(inside, outside, 1 if i else stride, expansion))
            inside = outside
    layers.append(convolution(320, 1280, 1, activation=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes))


def make_resnet(classes):
    layers, inside = [convolution(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in SIZES["resnet50"]:
        for i in range(count):
            layers.append(bottleneck(inside, width, 1 if i else stride))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


def main():
    name, precision, variant, size = sys.argv[1], sys.argv[2], sys.argv[6], int(sys.argv[7])
    batch, steps, classes = map(int, sys.argv[3:6])
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    type16 = {"mixed_bfloat16": torch.bfloat16, "mixed_float16": torch.float16}.get(precision)
    model = (make_mobilenet if name == "mobilenet_v2" else make_resnet)(classes)
    model = model.to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "mixed_float16")
    images = (torch.rand(batch, 3, size, size) * 2 - 1).contiguous(memory_format=torch.channels_last).pin_memory()
    labels = (torch.arange(batch) % classes).pin_memory()
    forward = torch.compile(model) if variant == "compiled" else model

    def step():
        on_device = images.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=type16) if type16 else contextlib.nullcontext():
            loss = F.cross_entropy(forward(on_device[0]), on_device[1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    for _ in range(5):
        loss = step()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        loss = step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    print(json.dumps({"images_per_second": batch * steps / seconds, "loss": loss.item(),
                      "allocated_megabytes": torch.cuda.max_memory_allocated() / 2**20}))


main()
