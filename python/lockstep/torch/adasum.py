"""Horovod's DistributedOptimizer(op=Adasum): each rank makes its own step, and Adasum combines the changes of the parameters."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import torch

from .handles import synchronize
from .ops import Reduction, _all_reduce

_OURS = "_lockstep"


class _AdasumOptimizer(torch.optim.Optimizer):
    """The methods that a wrapped optimizer's class gets."""

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Nothing is reduced before step, so the passes need no count."""

    def synchronize(self) -> None:
        """Does nothing: the gradients stay this rank's own."""

    @contextmanager
    def skip_synchronize(self):
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield

    @torch.no_grad()
    def step(self, closure=None) -> Any:
        parameters = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        before = [p.clone(memory_format=torch.contiguous_format) for p in parameters]
        loss = super(type(self), self).step(closure)
        changes = [p - start for p, start in zip(parameters, before)]
        synchronize(_all_reduce(changes, changes, "changes", self.__dict__[_OURS]).begin())
        for p, start, change in zip(parameters, before, changes):
            p.copy_(start.add_(change))
        return loss


_METHODS = ("set_backward_passes_per_step", "synchronize", "skip_synchronize", "step")


def adasum_optimizer(optimizer: torch.optim.Optimizer, how: Reduction) -> torch.optim.Optimizer:
    """The optimizer with its state, of a class derived from its own."""
    wrapped = type(optimizer)
    cls = type(wrapped.__name__, (wrapped,), {name: _AdasumOptimizer.__dict__[name] for name in _METHODS})
    made = cls.__new__(cls)
    made.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    made.__dict__[_OURS] = how
    return made
