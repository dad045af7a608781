"""Memory of tensors for the library: a contiguous tensor on the CPU as it is, any other through a copy."""
from __future__ import annotations

from typing import Any, Sequence, Tuple

import torch

from .. import _arrays

CODES = {torch.float32: _arrays.FLOAT32, torch.float64: _arrays.FLOAT64, torch.float16: _arrays.FLOAT16,
         torch.bfloat16: _arrays.BFLOAT16, torch.int32: _arrays.INT32, torch.int64: _arrays.INT64,
         torch.uint8: _arrays.UINT8, torch.int8: _arrays.INT8, torch.bool: _arrays.BOOL}


def code(tensor: torch.Tensor) -> int:
    found = CODES.get(tensor.dtype)
    if found is None:
        raise _arrays.refuse(f"a tensor of {tensor.dtype} cannot be reduced: it is none of "
                             f"{', '.join(str(dtype) for dtype in CODES)}")
    return found


def as_bytes(tensor: torch.Tensor) -> Tuple[int, int]:
    """(type, bytes an element) of memory that is moved and not added: a type that the library lacks is moved as bytes."""
    found = CODES.get(tensor.dtype)
    return (found, 1) if found is not None else (_arrays.UINT8, tensor.element_size())


class Place:
    """A tensor's memory as an argument of the library's functions; it holds the tensor."""
    __slots__ = ("_as_parameter_", "_tensor")

    def __init__(self, tensor: torch.Tensor):
        self._as_parameter_, self._tensor = tensor.data_ptr(), tensor


def need_tensor(tensor: Any) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise _arrays.refuse(f"{type(tensor).__name__} is no tensor; torch.as_tensor makes one")
    return tensor


def is_plain(tensor: torch.Tensor) -> bool:
    return tensor.is_cpu and tensor.layout == torch.strided and tensor.is_contiguous()


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its history, itself where it is plain."""
    if need_tensor(tensor).layout != torch.strided:
        raise _arrays.refuse("a sparse tensor cannot be sent; sparse_allreduce_async adds those")
    own = tensor.detach()
    return own if is_plain(own) else own.to("cpu").contiguous()


def give_back(host: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """After an operation in place on host, the copy of tensor."""
    own = tensor.detach()
    if host.data_ptr() != own.data_ptr() or host.device != own.device:
        own.copy_(host)
    return tensor


def of_memory(memory: Any, dtype: torch.dtype, rest: Sequence[int]) -> torch.Tensor:
    """Bytes as rows of the shape rest, without a copy; the tensor keeps them alive."""
    row = 1
    for extent in rest:
        row *= extent
    if not len(memory):
        return torch.empty((0, *rest), dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).view(-1, *rest) if row else torch.empty((0, *rest), dtype=dtype)
