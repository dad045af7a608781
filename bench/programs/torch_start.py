"""Starts, joins a gloo group, adds one vector of 4 KB over all processes, waits HOLD seconds and ends, for bench/start.

usage: torchrun ... torch_start.py HOLD
"""
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
vector = torch.ones(1024)
dist.all_reduce(vector)
if not bool((vector == dist.get_world_size()).all()):
    sys.exit("torch_start: the sum is wrong")
time.sleep(float(sys.argv[1]))
dist.destroy_process_group()
