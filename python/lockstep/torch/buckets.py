"""Gradients in buckets: each bucket is one flat tensor, reduced as soon as the backward pass has all of its gradients.

Buckets are begun in their order, on all ranks alike, as torch's DistributedDataParallel does: the last parameters come
first. A gradient is then a view of its bucket."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import torch

from ..communicator import Communicator
from .handles import Handle
from .memory import code

FIRST_BYTES = 1 << 20   # a small first bucket, so that the wire begins early
OTHER_BYTES = 25 << 20


class Bucket:
    """Parameters of one type on one device, whose gradients are reduced by one call."""

    def __init__(self, number: int, parameters: Sequence[torch.nn.Parameter]):
        self.number, self.parameters = number, list(parameters)
        self.missing = len(self.parameters)
        first = self.parameters[0]
        self.flat = torch.zeros(sum(p.numel() for p in self.parameters), dtype=first.dtype, device=first.device)
        parts = self.flat.split([p.numel() for p in self.parameters])
        self.views = [part.view(p.shape) for part, p in zip(parts, self.parameters)]
        self.given = [False] * len(self.parameters)
        self.handle: Optional[Handle] = None

    def give(self, index: int) -> None:
        """Copies the parameter's gradient into the bucket, unless it lies there; none is zeros."""
        parameter, view = self.parameters[index], self.views[index]
        gradient = parameter.grad
        if gradient is None:
            view.zero_()
        elif gradient.data_ptr() != view.data_ptr() or gradient.stride() != view.stride():
            view.copy_(gradient)
        if not self.given[index]:
            self.given[index] = True
            self.missing -= 1

    def take(self) -> None:
        """After the reduction the gradients are the bucket's."""
        for parameter, view in zip(self.parameters, self.views):
            if parameter.grad is None or parameter.grad.data_ptr() != view.data_ptr():
                parameter.grad = view
        self.missing, self.given, self.handle = len(self.parameters), [False] * len(self.parameters), None


def divide(parameters: Sequence[torch.nn.Parameter], groups: Sequence[Sequence[torch.nn.Parameter]] = ()) -> List[Bucket]:
    """Buckets of the parameters, the last one first. Each of groups is together in one bucket for each type and device."""
    left = {id(p): p for p in reversed(list(parameters))}
    lists: List[List[torch.nn.Parameter]] = []
    for group in groups:
        lists.extend(_by_kind([left.pop(id(p)) for p in reversed(list(group)) if id(p) in left]))
    open_: dict = {}
    for parameter in left.values():
        kind = (parameter.dtype, parameter.device)
        size = parameter.numel() * parameter.element_size()
        held, used = open_.get(kind, (None, 0))
        limit = FIRST_BYTES if not lists or held is lists[0] else OTHER_BYTES
        if held is None or (used and used + size > limit):
            held, used = [], 0
            lists.append(held)
        held.append(parameter)
        open_[kind] = (held, used + size)
    for parameter in left.values():
        code(parameter)  # a type that cannot be reduced is refused now
    return [Bucket(number, held) for number, held in enumerate(held for held in lists if held)]


def _by_kind(parameters: Sequence[torch.nn.Parameter]) -> List[List[torch.nn.Parameter]]:
    kinds: dict = {}
    for parameter in parameters:
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    return list(kinds.values())


class Buckets:
    """All buckets of an optimizer, and which of them may begin."""

    def __init__(self, buckets: List[Bucket], begin: Callable[[Bucket], Handle]):
        self.all = buckets
        self._begin = begin
        self._next = 0
        self.place = {id(p): (bucket, i) for bucket in buckets for i, p in enumerate(bucket.parameters)}

    @property
    def active(self) -> bool:
        """Some gradient of this step is in a bucket."""
        return self._next > 0 or any(any(bucket.given) for bucket in self.all)

    def ready(self, parameter: torch.nn.Parameter) -> None:
        """The gradient is whole. Begins every bucket that is complete and whose turn it is."""
        bucket, index = self.place[id(parameter)]
        bucket.give(index)
        while self._next < len(self.all) and not self.all[self._next].missing:
            self._start(self.all[self._next])

    def _start(self, bucket: Bucket) -> None:
        bucket.handle = self._begin(bucket)
        self._next += 1

    def wait(self) -> None:
        """Begins what is left, with zeros for gradients that the backward pass has not made, and waits for all."""
        for bucket in self.all[self._next:]:
            for index, given in enumerate(bucket.given):
                if not given:
                    bucket.give(index)
            self._start(bucket)
        try:
            for bucket in self.all:
                bucket.handle.result()
                bucket.take()
        finally:
            self.forget()

    def forget(self) -> None:
        """Nothing of this step is in a bucket any more."""
        self._next = 0
        for bucket in self.all:
            bucket.missing, bucket.given = len(bucket.parameters), [False] * len(bucket.parameters)
            bucket.handle = None
