"""Gradients in buckets: each is reduced by one call, as soon as the backward pass has all of its gradients.

Buckets are begun in their order, on all ranks alike, as torch's DistributedDataParallel does: the last parameters come
first."""
from __future__ import annotations

from typing import Callable, List, Optional, Sequence

import torch

from .handles import Handle
from .memory import code

FIRST_BYTES = 1 << 20   # a small first bucket, so that the wire begins early
OTHER_BYTES = 25 << 20


class Bucket:
    """Parameters of one type on one device, whose gradients are reduced by one call, in place."""

    def __init__(self, number: int, parameters: Sequence[torch.nn.Parameter]):
        self.number, self.parameters = number, list(parameters)
        self.forget()

    def give(self, index: int) -> None:
        """The parameter's gradient is whole; none is zeros."""
        parameter = self.parameters[index]
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if not self.given[index]:
            self.given[index] = True
            self.missing -= 1

    @property
    def gradients(self) -> List[torch.Tensor]:
        return [parameter.grad for parameter in self.parameters]

    def forget(self) -> None:
        self.missing = len(self.parameters)
        self.given = [False] * len(self.parameters)
        self.handle: Optional[Handle] = None


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
        finally:
            self.forget()

    def forget(self) -> None:
        """Nothing of this step is in a bucket any more."""
        self._next = 0
        for bucket in self.all:
            bucket.forget()
