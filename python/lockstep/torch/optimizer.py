"""Horovod's DistributedOptimizer: an optimizer of the wrapped one's class whose step first adds the gradients of all ranks.

A hook on each parameter tells when its gradient is whole, so that the reduction goes on beside the backward pass."""
from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch

from ..process_sets import global_process_set
from .adasum import adasum_optimizer
from .buckets import Bucket, Buckets, divide
from .compression import Compression
from .handles import Handle, synchronize
from .ops import Adasum, Average, Reduction, Sum, _all_reduce, sparse_allreduce_async

_OURS = "_lockstep"  # the attribute that holds all of ours, beside the wrapped class's


def _parameters(optimizer: torch.optim.Optimizer) -> List[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _check_names(named: Optional[Iterable[Tuple[str, Any]]], optimizer) -> Dict[int, str]:
    """Names by the parameters' ids; Horovod's three errors."""
    parameters = _parameters(optimizer)
    pairs = [(f"allreduce.noname.{i}", p) for i, p in enumerate(parameters)] if named is None else list(named)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by "
                         "model.named_parameters().")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    found = {id(p): name for name, p in pairs}
    unnamed = [i for i, p in enumerate(parameters) if id(p) not in found]
    if unnamed:
        raise ValueError(f"named_parameters was specified, but one or more model parameters were not named. Their numbers in "
                         f"param_groups: {unnamed}")
    return found


def _groups(num_groups: int, groups: Union[None, int, Sequence], parameters: List) -> List[List]:
    """Horovod's groups: a number of them, or lists of parameters."""
    if isinstance(groups, int):
        num_groups, groups = groups, None
    if num_groups < 0:
        raise ValueError(f"expected num_groups to be a number, 0 or more, and got {num_groups}")
    if groups is not None:
        lists = [list(group) for group in groups]
        if not all(isinstance(p, torch.Tensor) for group in lists for p in group):
            raise ValueError("groups must consist of torch.Tensor in lists")
        ids = [id(p) for group in lists for p in group]
        if len(ids) != len(set(ids)):
            raise ValueError("a parameter can only appear once in groups")
        return lists
    if not num_groups:
        return []
    from ..communicator import split_evenly
    sizes, begin, found = split_evenly(len(parameters), min(num_groups, len(parameters))), 0, []
    for size in sizes:
        found.append(parameters[begin:begin + size])
        begin += size
    return found


class _Gradients:
    """The hooks and buckets of one optimizer."""

    def __init__(self, optimizer, names, how: Dict[str, Any], passes: int, groups, num_groups: int, sparse_as_dense: bool,
                 predivide: float, process_set):
        self.names, self.how, self.passes, self.process_set = names, how, passes, process_set
        self.predivide, self.sparse_as_dense = predivide, sparse_as_dense
        wanted = [p for p in _parameters(optimizer) if p.requires_grad]
        self.left = {id(p): passes for p in wanted}
        self.parameters = {id(p): p for p in wanted}
        self.sparse: Dict[int, Optional[torch.Tensor]] = {}  # parameters with sparse gradients, and the first ones
        self.made_sparse = False
        self.synchronized, self.should_synchronize = False, True
        self._lists = _groups(num_groups, groups, wanted)
        self.buckets = Buckets(divide(wanted, self._lists), self._begin)
        self.hooks = [p.register_post_accumulate_grad_hook(self._hook) for p in wanted]

    def _reduction(self) -> Reduction:
        return Reduction(prescale_factor=1.0 / self.predivide, postscale_factor=self.predivide,
                         process_set=self.process_set, **self.how)

    def _begin(self, bucket: Bucket) -> Handle:
        name = self.names[id(bucket.parameters[0])]
        gradients = bucket.gradients
        return _all_reduce(gradients, gradients, f"bucket {bucket.number} of {name}", self._reduction()).begin()

    def _hook(self, parameter: torch.nn.Parameter) -> None:
        left = self.left[id(parameter)]
        if left <= 0:
            raise AssertionError("Gradients were computed more than backward_passes_per_step times before call to step(). "
                                 "Increase backward_passes_per_step to accumulate gradients locally.")
        self.left[id(parameter)] = left - 1
        if left > 1:
            return
        if parameter.grad.layout != torch.strided:
            if not self.sparse_as_dense:
                self.made_sparse = True
                if id(parameter) not in self.sparse:
                    self.sparse[id(parameter)] = parameter.grad
                    parameter.grad = None  # zeros in its bucket, which has no place for it from the next step on
                    self.buckets.ready(parameter)
                return
            parameter.grad = parameter.grad.to_dense()
        self.buckets.ready(parameter)

    def _reduce_sparse(self) -> None:
        """All sparse gradients, in the parameters' order; one that the backward pass has not made is empty."""
        handles = []
        for key in (key for key in self.parameters if key in self.sparse):
            parameter = self.parameters[key]
            if parameter.grad is None or parameter.grad.layout == torch.strided:
                parameter.grad = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64),
                                                         parameter.new_zeros(0, *parameter.shape[1:]), parameter.shape)
            handles.append((parameter, sparse_allreduce_async(parameter.grad, f"sparse {self.names[key]}", self.how["op"],
                                                              self.process_set)))
        for parameter, handle in handles:
            parameter.grad = synchronize(handle)

    def synchronize(self) -> None:
        try:
            self.buckets.wait()
            self._move_sparse()
            self._reduce_sparse()
        finally:
            self.forget()
        self.synchronized = True

    def _move_sparse(self) -> None:
        """After the step in which a gradient was sparse for the first time: buckets without it."""
        new = [key for key, gradient in self.sparse.items() if gradient is not None]
        for key in new:
            self.parameters[key].grad, self.sparse[key] = self.sparse[key], None
        if new:
            dense = [p for key, p in self.parameters.items() if key not in self.sparse]
            self.buckets = Buckets(divide(dense, self._lists), self._begin)

    def forget(self) -> None:
        self.buckets.forget()
        self.made_sparse = False
        self.left = dict.fromkeys(self.left, self.passes)

    @property
    def active(self) -> bool:
        return self.buckets.active or self.made_sparse

    def tell_wrapped(self) -> None:
        """A scheduler that was made of the wrapped optimizer looks there whether a step came before its own."""
        self.wrapped.__dict__["_opt_called"] = True
        self.wrapped.__dict__["_step_count"] = self.wrapped.__dict__.get("_step_count", 0) + 1


class _DistributedOptimizer(torch.optim.Optimizer):
    """The methods that a wrapped optimizer's class gets."""

    def load_state_dict(self, *args, **kwargs):
        ours = self.__dict__[_OURS]
        ours.forget()
        ours.synchronized, ours.should_synchronize = False, True
        return super(type(self), self).load_state_dict(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        ours = self.__dict__[_OURS]
        ours.passes = passes
        ours.left = dict.fromkeys(ours.left, passes)

    def synchronize(self) -> None:
        """Waits until the gradients are those of all ranks; for clipping before step, within skip_synchronize."""
        self.__dict__[_OURS].synchronize()

    @contextmanager
    def skip_synchronize(self):
        """step within it does not synchronize: synchronize was called before."""
        ours = self.__dict__[_OURS]
        ours.should_synchronize = False
        try:
            yield
        finally:
            ours.should_synchronize = True

    def step(self, closure=None):
        ours = self.__dict__[_OURS]
        if closure is not None:
            raise ValueError("a closure would make new gradients behind the reduction; call backward before step()")
        if ours.should_synchronize:
            if ours.synchronized:
                warnings.warn("optimizer.step() called without optimizer.skip_synchronize() context after "
                              "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
                              "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code.")
            ours.synchronize()
        ours.synchronized = False
        done = super(type(self), self).step()
        ours.tell_wrapped()
        return done

    def zero_grad(self, *args, **kwargs):
        if self.__dict__[_OURS].active:
            raise AssertionError("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                                 "optimizer.synchronize(). This is prohibited as it can cause a race condition.")
        return super(type(self), self).zero_grad(*args, **kwargs)


_METHODS = ("load_state_dict", "set_backward_passes_per_step", "synchronize", "skip_synchronize", "step", "zero_grad")


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters=None, compression=Compression.none,
                         backward_passes_per_step: int = 1, op: int = Average, gradient_predivide_factor: float = 1.0,
                         num_groups: int = 0, groups=None, sparse_as_dense: bool = False,
                         process_set=global_process_set) -> torch.optim.Optimizer:
    """The optimizer with its state, of a class derived from its own. With backward_passes_per_step gradients of so many
    backward passes are added before they are reduced. A predivide factor f divides by f before the reduction, and
    multiplies after it. The parameters of each of groups, or of num_groups parts, are reduced by one call. With Adasum
    each rank makes its own step, and the changes of the parameters are combined."""
    if op not in (Average, Sum, Adasum):
        raise ValueError(f"op {op} is neither Average nor Sum nor Adasum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step {backward_passes_per_step} must be 1 or more")
    if _OURS in optimizer.__dict__:
        raise ValueError("the optimizer is a DistributedOptimizer already: wrap it once")
    names = _check_names(named_parameters, optimizer)
    if op == Adasum:
        return adasum_optimizer(optimizer, Reduction(op=op, compression=compression, process_set=process_set))
    wrapped = type(optimizer)
    cls = type(wrapped.__name__, (wrapped,), {name: _DistributedOptimizer.__dict__[name] for name in _METHODS})
    made = cls.__new__(cls)
    made.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    made.__dict__[_OURS] = _Gradients(made, names, {"op": op, "compression": compression}, backward_passes_per_step, groups,
                                      num_groups, sparse_as_dense, gradient_predivide_factor, process_set)
    made.__dict__[_OURS].wrapped = optimizer
    return made
