#!/usr/bin/env python3
"""Records short trainings by torch whose layers are parameter groups: one with a tenth of the learning rate, one that is
frozen; writes groups.txt beside this script.

Needs a Python with torch (pip install torch): running it again with the same version reproduces the file."""

import torch

from torch_text import version, write

EXAMPLES, WIDTH, CLASSES, STEPS = 24, 6, 5, 20
LAYERS = {"first": (WIDTH, 8), "middle": (8, 7), "last": (7, CLASSES)}
F = torch.nn.functional
torch.manual_seed(17)


def forward(variables, x):
    for name in LAYERS:
        x = x @ variables[name + "/kernel"] + variables[name + "/bias"]
        x = x if name == "last" else torch.tanh(x)
    return x


def groups(variables, rate):
    """Of the first layer, whose learning rate is a tenth, and of the last; the middle one is in none."""
    return [{"params": [value for key, value in variables.items() if key.startswith(name)], "lr": rate * factor}
            for name, factor in (("first", 0.1), ("last", 1.0))]


def clip(gradients, norm):
    """As tf.clip_by_global_norm: torch's adds 1e-6 to the norm."""
    whole = sum((gradient.double() ** 2).sum() for gradient in gradients).sqrt()
    for gradient in gradients:
        gradient *= min(1.0, norm / whole)


def adamw(given):
    return torch.optim.AdamW(given(0.01), betas=(0.9, 0.99), eps=1e-2, weight_decay=0.05)


def momentum(given):
    return torch.optim.SGD(given(0.05), momentum=0.9)


def main():
    x, labels = torch.randn(EXAMPLES, WIDTH), torch.randint(0, CLASSES, (EXAMPLES,))
    tensors = {"x": x, "labels": labels}
    before = {}
    for name, shape in LAYERS.items():
        before |= {name + "/kernel": torch.randn(shape) * 0.4, name + "/bias": torch.randn(shape[1]) * 0.1}
    tensors |= {"before/" + name: value for name, value in before.items()}
    for rule in (adamw, momentum):
        variables = {name: value.clone().requires_grad_("middle" not in name) for name, value in before.items()}
        optimizer = rule(lambda rate: groups(variables, rate))
        for _ in range(STEPS):
            optimizer.zero_grad()
            F.cross_entropy(forward(variables, x), labels).backward()
            clip([value.grad for value in variables.values() if value.requires_grad], 0.3)
            optimizer.step()
        tensors |= {"%s/%s" % (rule.__name__, name): value for name, value in variables.items()}
    write(__file__, "Trainings with parameter groups.", f"torch {version()}", tensors)


main()
