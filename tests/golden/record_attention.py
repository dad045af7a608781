#!/usr/bin/env python3
"""Records torch's scaled_dot_product_attention and its gradients, with grouped heads, rotary positions and windows, and
a small network with positions and attention; writes attention.txt beside this script.

Needs only a Python with torch and numpy. Running it again with the same version on the same instruction set reproduces
the file. Rotary positions are those of Hugging Face's Llama, computed here."""

import numpy as np
import torch
import torch.nn.functional as functional

from torch_text import version, write

# rows, positions, width of a head, heads, kv_heads, window (0: none), rope, causal
CASES = {
    "plain": (2, 9, 4, 2, 2, 0, False, True),
    "grouped": (1, 12, 2, 4, 2, 0, False, True),
    "rope": (2, 11, 8, 2, 2, 0, True, True),
    "window": (1, 14, 4, 2, 1, 5, True, True),
    "whole": (1, 8, 4, 2, 1, 0, True, False),
    "blocks": (1, 70, 2, 2, 1, 0, True, True),
}


def rotate(x):
    """x (rows, heads, positions, width), as modeling_llama.apply_rotary_pos_emb."""
    width = x.shape[-1]
    inverse = 1.0 / (10000.0 ** (torch.arange(0, width, 2, dtype=x.dtype) / width))
    angles = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    half = torch.cat((-x[..., width // 2:], x[..., :width // 2]), dim=-1)
    return x * angles.cos() + half * angles.sin()


def attend(packed, width, heads, kv_heads, window, rope, causal):
    rows, length, _ = packed.shape
    q, k, v = packed.split([heads * width, kv_heads * width, kv_heads * width], dim=-1)
    q, k, v = (part.reshape(rows, length, -1, width).transpose(1, 2) for part in (q, k, v))
    if rope:
        q, k = rotate(q), rotate(k)
    mask = None
    if window:
        distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        mask = (distance >= 0) & (distance < window)
    y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and mask is None,
                                                enable_gqa=True)
    return y.transpose(1, 2).reshape(rows, length, heads * width)


def normal(random, *shape, scale=1.0):
    """Values that float32 holds, in double."""
    return torch.tensor((scale * random.standard_normal(shape)).astype(np.float32), dtype=torch.float64)


def record_cases(tensors):
    random = np.random.default_rng(17)
    for name, (rows, length, width, heads, kv_heads, window, rope, causal) in CASES.items():
        x = normal(random, rows, length, (heads + 2 * kv_heads) * width).requires_grad_()
        dy = normal(random, rows, length, heads * width)
        y = attend(x, width, heads, kv_heads, window, rope, causal)
        y.backward(dy)
        tensors |= {f"{name}/x": x, f"{name}/y": y, f"{name}/dy": dy, f"{name}/dx": x.grad}


def record_network(tensors):
    random = np.random.default_rng(18)
    rows, length, channels, classes = 5, 7, 6, 3
    x, labels = normal(random, rows, length, channels), random.integers(0, classes, rows)
    shapes = {"position_embedding/embeddings": (length, channels), "qkv/kernel": (channels, 16), "qkv/bias": (16,),
              "output/kernel": (8, 4), "output/bias": (4,), "head/kernel": (length * 4, classes), "head/bias": (classes,)}
    variables = {name: normal(random, *shape, scale=0.5).requires_grad_() for name, shape in shapes.items()}
    hidden = x + variables["position_embedding/embeddings"]
    hidden = attend(hidden @ variables["qkv/kernel"] + variables["qkv/bias"], 2, 4, 2, 4, True, True)
    hidden = torch.relu(hidden @ variables["output/kernel"] + variables["output/bias"])
    logits = hidden.reshape(rows, -1) @ variables["head/kernel"] + variables["head/bias"]
    loss = functional.cross_entropy(logits, torch.tensor(labels))
    loss.backward()
    tensors |= {"network/x": x, "network/labels": labels, "network/loss": loss}
    for name, variable in variables.items():
        tensors |= {f"network/{name}": variable, f"network/gradient/{name}": variable.grad}


recorded = {}
record_cases(recorded)
record_network(recorded)
write(__file__, "Attention and positions by torch.", f"torch {version()}, numpy {np.__version__}", recorded)
