"""Horovod's broadcasts of a whole model, optimizer or object."""
from __future__ import annotations

from typing import Any, Iterable, List, Optional, Tuple

import torch

from .. import _arrays, objects
from .._library import Broadcast
from ..process_sets import global_process_set
from .memory import Place, as_bytes, give_back, to_host


def broadcast_object(obj: Any = None, root_rank: int = 0, name: Optional[str] = None, process_set=global_process_set) -> Any:
    """The object of root_rank on every rank, pickled."""
    return objects.broadcast_object(obj, process_set.place_of(root_rank), name, communicator=process_set.communicator())


def allgather_object(obj: Any, name: Optional[str] = None, process_set=global_process_set) -> List[Any]:
    """The objects of all ranks, pickled."""
    return objects.all_gather_object(obj, name, communicator=process_set.communicator())


def _named(params: Any) -> List[Tuple[str, torch.Tensor]]:
    if isinstance(params, dict):
        pairs: Iterable = sorted(params.items())
    elif isinstance(params, (list, tuple)) or hasattr(params, "__next__"):
        pairs = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    return [(name or f"{number}", tensor) for number, (name, tensor) in enumerate(pairs) if isinstance(tensor, torch.Tensor)]


def broadcast_parameters(params: Any, root_rank: int = 0, process_set=global_process_set) -> None:
    """The tensors of a state_dict, or of (name, tensor) pairs, become those of root_rank, in place. Small ones are sent
    together. What is no tensor stays."""
    group, root = process_set.communicator(), process_set.place_of(root_rank)
    pairs = _named(params)
    agree(group, root, [(name, str(tensor.dtype), tuple(tensor.shape)) for name, tensor in pairs])
    hosts = [to_host(tensor) for _, tensor in pairs]
    small = [host for host in hosts if host.numel() * host.element_size() <= _SMALL]
    called = group.name("broadcast_parameters")

    def work():
        _broadcast_together(group, root, called, small)
        for number, ((name, _), host) in enumerate(zip(pairs, hosts)):
            if host.numel() * host.element_size() > _SMALL:
                kind, width = as_bytes(host)
                group.direct("ls_broadcast", Broadcast(b"%s.%d.%s" % (called, number, name.encode()), Place(host),
                                                       host.numel() * width, kind, root))
    group.run(work)
    with torch.no_grad():
        for host, (_, tensor) in zip(hosts, pairs):
            give_back(host, tensor)


_SMALL = 64 * 1024  # bytes


def _broadcast_together(group, root: int, called: bytes, tensors: List[torch.Tensor]) -> None:
    if not tensors:
        return
    flat = [tensor.reshape(-1).view(torch.uint8) for tensor in tensors]
    packed = torch.cat(flat)
    group.direct("ls_broadcast", Broadcast(called, Place(packed), packed.numel(), _arrays.UINT8, root))
    for part, own in zip(packed.split([len(part) for part in flat]), flat):
        own.copy_(part)


def agree(group, root: int, mine: Any) -> None:
    """One error on every rank that differs from root, which names the first difference."""
    theirs = objects.broadcast_object(mine, root, communicator=group)
    faults = [f"{a} here, {b} on rank {root}" for a, b in zip(mine, theirs) if a != b]
    if len(mine) != len(theirs):
        faults.append(f"{len(mine)} tensors here, {len(theirs)} on rank {root}")
    found = objects.all_gather_object(faults[0] if faults else None, communicator=group)
    for rank, fault in enumerate(found):
        if fault:
            raise _arrays.refuse(f"broadcast_parameters: rank {rank} differs: {fault}")


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0, process_set=global_process_set) -> None:
    """The optimizer's state and options (learning rate and others) become those of root_rank. An optimizer without a
    state gets that of root_rank, of whatever kind it is."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    root = process_set.place_of(root_rank)
    group = process_set.communicator()
    state = objects.broadcast_object(_skeleton(optimizer.state_dict()) if group.rank == root else None, root, communicator=group)
    if group.rank == root:
        tensors = _tensors(optimizer.state_dict())
    else:
        tensors = []
        state = _filled(state, tensors)
    broadcast_parameters([(f"state.{number}", tensor) for number, tensor in enumerate(tensors)], root_rank, process_set)
    if group.rank != root:
        _load(optimizer, state)


def _load(optimizer: torch.optim.Optimizer, state: dict) -> None:
    """As load_state_dict of the wrapped class: that of DistributedOptimizer also forgets outstanding gradients."""
    type(optimizer).load_state_dict(optimizer, state)


class _Hole:
    """A tensor's place in a pickled state."""

    def __init__(self, tensor: torch.Tensor):
        self.dtype, self.shape = tensor.dtype, tuple(tensor.shape)


def _mapped(thing: Any, function) -> Any:
    """A copy of nested dicts, lists and tuples, in one order."""
    if isinstance(thing, dict):
        return {key: _mapped(value, function) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)(_mapped(value, function) for value in thing)
    return function(thing)


def _skeleton(state: dict) -> dict:
    return _mapped(state, lambda thing: _Hole(thing) if isinstance(thing, torch.Tensor) else thing)


def _tensors(state: dict) -> List[torch.Tensor]:
    found: List[torch.Tensor] = []
    _mapped(state, lambda thing: found.append(thing) if isinstance(thing, torch.Tensor) else None)
    return found


def _filled(state: dict, tensors: List[torch.Tensor]) -> dict:
    def fill(thing):
        if not isinstance(thing, _Hole):
            return thing
        tensors.append(torch.empty(thing.shape, dtype=thing.dtype))
        return tensors[-1]
    return _mapped(state, fill)
