#!/usr/bin/env python3
"""Records torch's cross-entropy with ignore_index -1 behind an embedding and dense layers for each position: losses and
gradients in float64; writes uncounted.txt beside this script.

Needs a Python with torch (pip install torch): running it again with the same version reproduces the file."""

import torch

from torch_text import version, write

ROWS, COUNT, IDS, WIDTH, HIDDEN = 5, 6, 7, 4, 5
torch.manual_seed(11)


def draw(*shape):
    return (torch.randn(*shape, dtype=torch.float64) * 0.5).to(torch.float32).to(torch.float64).requires_grad_()


def main():
    ids, labels = torch.randint(0, IDS, (ROWS, COUNT)), torch.randint(0, IDS, (ROWS, COUNT))
    labels[torch.rand(ROWS, COUNT) < 0.4] = -1
    labels[2] = -1  # a row without a label
    labels[3] = torch.arange(COUNT) % IDS  # and one with all
    variables = {"embedding/embeddings": draw(IDS, WIDTH), "dense/kernel": draw(WIDTH, HIDDEN), "dense/bias": draw(HIDDEN),
                 "dense_1/kernel": draw(HIDDEN, IDS), "dense_1/bias": draw(IDS)}
    hidden = torch.relu(variables["embedding/embeddings"][ids] @ variables["dense/kernel"] + variables["dense/bias"])
    outputs = hidden @ variables["dense_1/kernel"] + variables["dense_1/bias"]
    flat = labels.flatten()
    loss = torch.nn.functional.cross_entropy(outputs.reshape(-1, IDS), flat, ignore_index=-1)
    smoothed = torch.nn.functional.cross_entropy(outputs.reshape(-1, IDS), flat, ignore_index=-1, label_smoothing=0.1)
    counted = flat >= 0
    right = (outputs.reshape(-1, IDS).argmax(1) == flat)[counted].sum()
    gradients = torch.autograd.grad(loss, list(variables.values()))
    tensors = {"ids": ids, "labels": labels, "loss": loss, "smoothed": smoothed, "perplexity": torch.exp(loss), "right": right,
               **variables, **{"gradient/" + name: gradient for name, gradient in zip(variables, gradients)}}
    write(__file__, "Cross-entropy of positions, of which those with label -1 do not count.", f"torch {version()}", tensors)


main()
