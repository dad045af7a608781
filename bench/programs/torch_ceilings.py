"""What a GPU's memory and arithmetic give at most, as torch reaches it: one JSON line.

usage: torch_ceilings.py"""
import json
import time

import torch


def measure(run, times):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / times


def product(dtype, size=8192):
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    return 2 * size**3 / measure(lambda: a @ b, 10) / 1e12


source = torch.randn(1 << 30, device="cuda")
target = torch.empty_like(source)
copied = 2 * source.numel() * 4 / measure(lambda: target.copy_(source), 20) / 1e9
del source, target
ceilings = {"gigabytes_per_second": copied, "float32": product(torch.float32), "bfloat16": product(torch.bfloat16)}
print(json.dumps(ceilings))
