"""Digests of torch's all-reduce (float32, sum): one JSON object {bytes: [digest of each cut]}, for bench/digest.

usage: torch_digest.py gloo|nccl BYTES,... PIECES,...

The caller starts every process with torch's variables. A cut adds the same vector in so many pieces, as buckets do."""
import hashlib
import json
import sys

import torch
import torch.distributed as dist

backend, sizes, cuts = sys.argv[1], *[[int(word) for word in words.split(",")] for words in sys.argv[2:4]]
torch.set_num_threads(1)
dist.init_process_group(backend)
device = f"cuda:{dist.get_rank()}" if backend == "nccl" else "cpu"


def digest(size, pieces):
    draw = torch.Generator().manual_seed(1 + dist.get_rank())
    vector = torch.randn(size // 4, generator=draw).to(device)
    for piece in vector.chunk(pieces):
        dist.all_reduce(piece)
    return hashlib.sha256(vector.cpu().numpy().tobytes()).hexdigest()


found = {size: [digest(size, pieces) for pieces in cuts] for size in sizes}
if dist.get_rank() == 0:
    print(json.dumps(found))
dist.destroy_process_group()
