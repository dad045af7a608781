"""Losses of a small GPT by torch, whose initial values come from a hash, for tests/train/gpt_test.c.

usage: gpt.py TEXT [chars] [float64]: TEXT's bytes are the ids (V = 256); with "chars" the places in its sorted
characters. Pre-LN GPT as nanoGPT's: 4 layers, 4 heads, 128 wide, 64 positions, GELU by erf, LayerNorm epsilon 1e-5,
biases, head tied to the token table. AdamW as torch has it: rate 1e-3, betas 0.9 0.99, epsilon 1e-8, no decay.
Step s has rows j = 0..11 of ids [(12 s + j) 64, + 64), labels one further; the loss is the mean over all positions.
Variables in this order, row-major, (out, in) as torch keeps them: wte, wpe, and of each layer ln1 g b, qkv w b, proj w b,
ln2 g b, fc w b, out w b; lnf g b. Gains 1, biases 0; element n of tensor number i is 0.035 h(n + 1000003 i)."""
import sys
import numpy as np
import torch
import torch.nn.functional as F

L, H, C, T, B = 4, 4, 128, 64, 12


def h(x):  # [-1, 1)
    u = np.uint64
    x = (x * u(2654435761))
    x = (x ^ (x >> u(15))) & u(0xFFFFFFFF)
    x = (x * u(2246822519)) & u(0xFFFFFFFF)
    x ^= x >> u(13)
    x = (x * u(3266489917)) & u(0xFFFFFFFF)
    x ^= x >> u(16)
    return x.astype(np.float64) / 2**31 - 1


def shapes(v):
    yield "w", (v, C)
    yield "w", (T, C)
    for _ in range(L):
        yield from (("g", (C,)), ("b", (C,)), ("w", (3 * C, C)), ("b", (3 * C,)), ("w", (C, C)), ("b", (C,)))
        yield from (("g", (C,)), ("b", (C,)), ("w", (4 * C, C)), ("b", (4 * C,)), ("w", (C, 4 * C)), ("b", (C,)))
    yield from (("g", (C,)), ("b", (C,)))


def variables(v, dtype):
    made = []
    for i, (kind, shape) in enumerate(shapes(v)):
        n = int(np.prod(shape))
        value = {"g": np.ones(n), "b": np.zeros(n)}.get(kind)
        if value is None:
            value = 0.035 * h(np.arange(n, dtype=np.uint64) + np.uint64(i) * np.uint64(1000003))
        made.append(torch.tensor(value.reshape(shape), dtype=dtype, requires_grad=True))
    return made


def forward(p, ids):
    q = iter(p)
    wte, wpe = next(q), next(q)
    x = wte[ids] + wpe
    for _ in range(L):
        y = F.layer_norm(x, (C,), next(q), next(q), 1e-5)
        y = F.linear(y, next(q), next(q)).view(-1, T, 3, H, C // H)
        a, k, v = (y[:, :, i].transpose(1, 2) for i in range(3))
        s = (a @ k.transpose(2, 3)) / (C // H) ** 0.5
        s = s.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf")).softmax(-1)
        x = x + F.linear((s @ v).transpose(1, 2).reshape(-1, T, C), next(q), next(q))
        y = F.layer_norm(x, (C,), next(q), next(q), 1e-5)
        x = x + F.linear(F.gelu(F.linear(y, next(q), next(q))), next(q), next(q))
    return F.linear(F.layer_norm(x, (C,), next(q), next(q), 1e-5), wte)


def main():
    data = open(sys.argv[1], "rb").read()
    ids = np.frombuffer(data, np.uint8).astype(np.int64)
    if "chars" in sys.argv:
        ids = np.searchsorted(np.unique(ids), ids)
    v = len(np.unique(ids)) if "chars" in sys.argv else 256
    torch.set_num_threads(1)
    p = variables(v, torch.float64 if "float64" in sys.argv else torch.float32)
    rule = torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0)
    for step in range(11):
        at = [(step * B + j) * T for j in range(B)]
        x, y = (torch.tensor(np.stack([ids[i + k : i + k + T] for i in at])) for k in (0, 1))
        loss = F.cross_entropy(forward(p, x).view(-1, v), y.view(-1))
        loss.backward()
        if not step:
            print("parameters %d, norm of all gradients %.6f" % (sum(t.numel() for t in p), sum((t.grad**2).sum() for t in p) ** 0.5))
        rule.step()
        rule.zero_grad()
        print("step %d loss %.6f" % (step, loss.item()))


main()
