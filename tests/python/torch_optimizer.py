"""One rank: DistributedOptimizer and the broadcasts, against one process that trains on the batches of all ranks."""
import random
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

import lockstep.torch as hvd

hvd.init()
RANK, SIZE, SEED = hvd.rank(), hvd.size(), int(sys.argv[1])
everywhere = random.Random(SEED)
ROWS = 4  # of each rank


class Branches(nn.Module):
    """One of its branches has no gradient in each step, another one on each rank."""

    def __init__(self):
        super().__init__()
        self.first, self.left, self.right = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x, branch):
        return (self.left if branch else self.right)(torch.tanh(self.first(x))) * self.frozen


def batch(step, rank):
    generator = torch.Generator().manual_seed(SEED % 1000 + 100 * step + rank)
    return torch.randn(ROWS, 6, generator=generator, dtype=torch.float64), torch.randint(0, 3, (ROWS,), generator=generator)


def loss_of(model, step, rank):
    x, y = batch(step, rank)
    return F.cross_entropy(model(x, (step + rank) % 2), y)


def made(kind):
    torch.manual_seed(3)
    model = Branches().double()
    options = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.01}, "AdamW": {"lr": 0.01, "amsgrad": True}}[kind]
    return model, getattr(torch.optim, kind)(model.parameters(), **options)


def expected(kind, steps, passes, op):
    """The weights of one process that sees all batches."""
    model, optimizer = made(kind)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=False)
        for turn in range(passes):
            for rank in range(SIZE):
                (loss_of(model, step * passes + turn, rank) / (SIZE if op == hvd.Average else 1)).backward()
        for p in model.parameters():
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        optimizer.step()
    return model


def close(found, wanted, what):
    for (name, a), b in zip(found.named_parameters(), wanted.parameters()):
        if not torch.allclose(a, b, rtol=1e-9, atol=1e-11):
            raise AssertionError(f"{what}: {name} differs by {(a - b).abs().max():g}")
    sums = hvd.allgather_object([p.double().sum().item() for p in found.parameters()])
    assert all(other == sums[0] for other in sums), what


def train(kind, steps=4, passes=1, op=hvd.Average, clip=False, set_to_none=True, **options):
    model, optimizer = made(kind)
    if RANK:
        for p in model.parameters():
            p.data.add_(1.0)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    groups = options.pop("by_layer", False)
    if groups:
        options["groups"] = [list(model.first.parameters()), [model.left.weight, model.right.weight]]
    distributed = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=op,
                                           backward_passes_per_step=passes, **options)
    assert isinstance(distributed, type(optimizer))
    schedule = torch.optim.lr_scheduler.StepLR(distributed, 1000)
    for step in range(steps):
        distributed.zero_grad(set_to_none=set_to_none)
        for turn in range(passes):
            loss_of(model, step * passes + turn, RANK).backward()
        if clip:
            distributed.synchronize()
            nn.utils.clip_grad_norm_(model.parameters(), 1e9)
            with distributed.skip_synchronize():
                distributed.step()
        else:
            distributed.step()
        schedule.step()
    return model, distributed


def optimizers():
    for kind in ("SGD", "Adam", "AdamW"):
        for passes in (1, 3):
            for op in (hvd.Average, hvd.Sum):
                wanted = expected(kind, 4, passes, op)
                options = [{}, {"num_groups": 2}, {"groups": 3}, {"by_layer": True}, {"clip": True}, {"set_to_none": False}]
                if op == hvd.Average:
                    options.append({"gradient_predivide_factor": float(SIZE)})
                for option in everywhere.sample(options, 3):
                    close(train(kind, passes=passes, op=op, **dict(option))[0], wanted, f"{kind} {passes} {op} {option}")


def compressions():
    wanted = expected("SGD", 4, 1, hvd.Average)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        model, _ = train("SGD", compression=compression)  # float64 is cast
        for a, b in zip(model.parameters(), wanted.parameters()):
            assert torch.allclose(a, b, rtol=0.05, atol=0.05), compression


def states():
    """The state of rank 0 goes to all, to a fresh optimizer too."""
    for kind in ("SGD", "Adam", "AdamW"):
        model, optimizer = made(kind)
        if RANK == 0:
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, step, 0).backward()
                optimizer.step()
            optimizer.param_groups[0]["lr"] = 0.25
        wrapped = hvd.DistributedOptimizer(optimizer, model.named_parameters()) if everywhere.random() < 0.5 else optimizer
        hvd.broadcast_parameters(model.state_dict(), 0)
        hvd.broadcast_optimizer_state(wrapped, 0)
        mine = wrapped.state_dict()
        assert mine["param_groups"][0]["lr"] == 0.25
        sums = hvd.allgather_object([(key, name, float(torch.as_tensor(value).double().sum()))
                                     for key, state in mine["state"].items() for name, value in state.items()])
        assert sums[0] and all(other == sums[0] for other in sums), sums
        assert any(p is model.first.weight for p in wrapped.param_groups[0]["params"])


def schedulers():
    """One of the optimizer before it is wrapped, and one of the wrapped: right rates, and no warning."""
    for before in (True, False):
        model, optimizer = made("SGD")
        distributed = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer if before else distributed, 1, 0.5)
        begun = distributed.param_groups[0]["lr"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(3):
                distributed.zero_grad()
                loss_of(model, step, RANK).backward()
                distributed.step()
                schedule.step()
                assert distributed.param_groups[0]["lr"] == begun * 0.5 ** (step + 1), (before, step)


def sparse():
    """An embedding's sparse gradient, and the same as dense."""
    found = []
    for as_dense in (False, True):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters(),
                                             sparse_as_dense=as_dense)
        for step in range(3):
            optimizer.zero_grad()
            if step != 1 or RANK == 0:  # in step 1 one rank alone uses it
                model(torch.tensor([step, RANK, 5])).square().sum().backward()
            else:
                model[1](torch.ones(3, 4)).square().sum().backward()
            optimizer.step()
        found.append([p.detach().clone() for p in model.parameters()])
    for a, b in zip(*found):
        assert torch.allclose(a, b, atol=1e-6), (a - b).abs().max()
    sums = hvd.allgather_object([p.double().sum().item() for p in found[0]])
    assert all(other == sums[0] for other in sums)


def combine(vectors):
    """Adasum of a list of vectors, by its definition."""
    if len(vectors) == 1:
        return vectors[0]
    a, b = combine(vectors[:len(vectors) // 2]), combine(vectors[len(vectors) // 2:])
    share = lambda x: 1 - float((a * b).sum() / (x * x).sum()) / 2 if x.any() else 1
    return share(a) * a + share(b) * b


def adasum():
    """Each rank makes its own step; the changes are combined, array by array."""
    if SIZE & (SIZE - 1):
        return
    for kind in ("SGD", "Adam"):
        found, optimizer = made(kind)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=found.named_parameters(), op=hvd.Adasum)
        ranks = [made(kind) for _ in range(SIZE)]
        for step in range(3):
            optimizer.zero_grad()
            loss_of(found, step, RANK).backward()
            optimizer.step()
            before = [p.detach().clone() for p in ranks[0][0].parameters()]
            for rank, (model, own) in enumerate(ranks):
                own.zero_grad()
                loss_of(model, step, rank).backward()
                own.step()
            for start, *ps in zip(before, *(model.parameters() for model, _ in ranks)):
                whole = start + combine([p.detach() - start for p in ps])
                for p in ps:
                    p.data.copy_(whole)
        close(found, ranks[0][0], f"adasum of {kind}")
    try:
        with optimizer.skip_synchronize():
            raise ValueError("skip_synchronize was not refused")
    except AssertionError as error:
        assert "not supported when using Adasum" in str(error)


def misuse():
    def refused(kind, words, function):
        try:
            function()
        except kind as error:
            assert words in str(error), error
            return
        raise AssertionError(f"'{words}' was not refused")
    model, optimizer = made("SGD")
    names = list(model.named_parameters())
    wrap = lambda *arguments, **options: hvd.DistributedOptimizer(optimizer, *arguments, **options)
    refused(ValueError, "must be unique", lambda: wrap(names + names[:1]))
    refused(ValueError, "were not named", lambda: wrap(names[1:]))
    refused(ValueError, "sequence of tuples", lambda: wrap(model.parameters()))
    refused(ValueError, "predivide", lambda: wrap(names, op=hvd.Sum, gradient_predivide_factor=2.0))
    refused(ValueError, "only appear once", lambda: wrap(names, groups=[[names[0][1]], [names[0][1]]]))
    refused(ValueError, "LBFGS", lambda: hvd.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), 0))
    refused(RuntimeError, "rank 1 differs", lambda: hvd.broadcast_parameters([("w", torch.zeros(1 + RANK))], 0)) if SIZE > 1 else None
    distributed = wrap(names)
    refused(ValueError, "is a DistributedOptimizer already", lambda: hvd.DistributedOptimizer(distributed, names))
    loss_of(model, 0, 0).backward()
    refused(AssertionError, "zero_grad() was called after", distributed.zero_grad)
    refused(AssertionError, "more than backward_passes_per_step", lambda: loss_of(model, 0, 0).backward())
    distributed.synchronize()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        distributed.step()
    assert any("skip_synchronize" in str(warning.message) for warning in said)


def batch_norms():
    """Statistics and gradients of all ranks' examples, of other numbers on each rank."""
    counts = [everywhere.randrange(1, 6) + 3 * (SIZE == 1) for _ in range(SIZE)]
    generator = torch.Generator().manual_seed(SEED % 997)
    for shape, plain in (((), nn.BatchNorm1d), ((4,), nn.BatchNorm1d), ((3, 2), nn.BatchNorm2d)):
        ours, theirs = hvd.SyncBatchNorm(5), plain(5)
        for _ in range(2):
            whole = torch.randn(sum(counts), 5, *shape, generator=generator)
            weights = torch.randn(whole.shape, generator=generator)
            begin = sum(counts[:RANK])
            mine = slice(begin, begin + counts[RANK])
            x, y = whole[mine].clone().requires_grad_(), whole.clone().requires_grad_()
            found, wanted = ours(x), theirs(y)
            (found * weights[mine]).sum().backward()
            (wanted * weights).sum().backward()
            for a, b in ((found, wanted[mine]), (x.grad, y.grad[mine]), (ours.running_mean, theirs.running_mean),
                         (ours.running_var, theirs.running_var)):
                assert torch.allclose(a, b, atol=2e-5), (a - b).abs().max()
        ours.eval(), theirs.eval()
        assert torch.allclose(ours(whole), theirs(whole), atol=1e-5)


for part in (optimizers, adasum, compressions, states, schedulers, sparse, misuse, batch_norms):
    part()
    hvd.barrier()
print("whole")
