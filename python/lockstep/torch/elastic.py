"""Horovod's elastic state of torch: TorchState, ElasticSampler, run."""
from __future__ import annotations

import copy
import math
import random
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

from .._absent import absent
from ..elastic import HorovodInternalError, ObjectState, State, run
from ..objects import broadcast_object
from ..process import is_initialized, rank, size
from .functions import broadcast_optimizer_state, broadcast_parameters


class ElasticSampler(torch.utils.data.Sampler):
    """The examples that are left in this epoch, divided over the ranks. record_batch says which are done, so that after a
    recovery none of them comes again. All ranks get as many: some examples come twice at the end."""

    def __init__(self, dataset, shuffle: bool = True, seed: int = 0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """A new order, with nothing done."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """The ranks have done a batch each. Call it after each batch, before commit."""
        self.record_indices(range(batch_size))

    def record_indices(self, indices) -> None:
        self.processed_num = min(self.processed_num + len(indices) * self.num_replicas, len(self.dataset))

    def state_dict(self) -> Dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        self.epoch, self.processed_num = state["epoch"], state["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divides what is left anew, over the ranks that there are now."""
        self.rank, self.num_replicas = (rank(), size()) if is_initialized() else (0, 1)
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(f"{self.seed}/{self.epoch}").shuffle(order)
        self.remaining_indices: List[int] = order[self.processed_num:]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        left = len(self.remaining_indices)
        self._own = [self.remaining_indices[place % left] for place in range(self.rank, self.total_size, self.num_replicas)]

    def __iter__(self) -> Iterator[int]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class _Kept:
    """Something with state_dict and load_state_dict, and its last commit. share takes it from a rank."""

    def __init__(self, value: Any, share: Callable[[Any, int], None]):
        self.value, self._share = value, share
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def share(self, root: int) -> None:
        self._share(self.value, root)


def _share_model(model: torch.nn.Module, root: int) -> None:
    broadcast_parameters(model.state_dict(), root)


def _share_state(value: Any, root: int) -> None:
    state = broadcast_object(value.state_dict() if rank() == root else None, root, "elastic.state")
    if rank() != root:
        value.load_state_dict(state)


def _kept(value: Any) -> Optional[_Kept]:
    if isinstance(value, torch.nn.Module):
        return _Kept(value, _share_model)
    if isinstance(value, torch.optim.Optimizer):
        return _Kept(value, broadcast_optimizer_state)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return _Kept(value, _share_state)
    return None


class TorchState(ObjectState):
    """Models, optimizers, schedulers and samplers by their state_dict; anything else pickled."""

    def __init__(self, model: Optional[torch.nn.Module] = None, optimizer: Optional[torch.optim.Optimizer] = None,
                 **attributes: Any):
        given = {name: value for name, value in {"model": model, "optimizer": optimizer, **attributes}.items()
                 if value is not None or name in attributes}
        self._kept = {name: kept for name, kept in ((name, _kept(value)) for name, value in given.items()) if kept}
        super().__init__(**{name: value for name, value in given.items() if name not in self._kept})
        self.__dict__.update({name: kept.value for name, kept in self._kept.items()})

    def __setattr__(self, name: str, value: Any) -> None:
        kept = self.__dict__.get("_kept", {}).get(name)
        if kept is not None:
            kept.value = value
            kept.save()
        object.__setattr__(self, name, value)

    def save(self) -> None:
        for kept in self._kept.values():
            kept.save()
        super().save()

    def restore(self) -> None:
        for kept in self._kept.values():
            kept.restore()
        super().restore()

    def reset(self) -> None:
        for kept in self._kept.values():
            if isinstance(kept.value, ElasticSampler):
                kept.value.reset()

    def sync_from(self, root: int) -> None:
        for kept in self._kept.values():
            kept.share(root)
        super().sync_from(root)


__getattr__ = absent(__name__, {name: "its names are in lockstep.torch.elastic itself" for name in ("state", "sampler")})
