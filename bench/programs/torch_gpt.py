"""nanoGPT's model in torch: tokens/s by the clock and by processor time, and peak memory, as one JSON line. The first steps, which compile, are not timed.

usage: torch_gpt.py VOCABULARY LAYERS HEADS WIDTH CONTEXT BATCH THREADS STEPS float32|mixed_bfloat16 eager|compiled"""
import contextlib
import json
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(rows, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.contract(F.gelu(self.expand(self.norm_2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary, layers, heads, width, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self.start)
        self.head.weight = self.tokens.weight

    @staticmethod
    def start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), labels.view(-1))


def main():
    vocabulary, layers, heads, width, context, batch, threads, steps = map(int, sys.argv[1:9])
    precision, variant = sys.argv[9:]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = GPT(vocabulary, layers, heads, width, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    tokens = torch.randint(vocabulary, (batch, context + 1))
    ids, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    forward = torch.compile(model) if variant == "compiled" else model
    mixed = precision == "mixed_bfloat16"

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16) if mixed else contextlib.nullcontext():
            loss = forward(ids, labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step()
    started, before = time.perf_counter(), time.process_time()
    for _ in range(steps):
        loss = step()
    seconds, used = time.perf_counter() - started, time.process_time() - before
    print(json.dumps({"tokens_per_second": batch * context * steps / seconds,
                      "tokens_per_processor_second": batch * context * steps / used, "loss": loss.item(),
                      "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
