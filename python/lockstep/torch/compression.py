"""Horovod's Compression, and bf16.

Between hosts Compression.fp16 and bf16 round float32 on the wire and add in float32, where Horovod adds in float16. Where
ranks share memory nothing is rounded."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch


class Compressor:
    """A user's own compressor derives from it. wire names a type to which the library's own links round; for float32 it
    takes the place of compress and decompress."""
    wire: Optional[str] = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, context):
        return tensor


def _cast(name: str, to: torch.dtype):
    class Cast(Compressor):
        wire = name

        @staticmethod
        def compress(tensor):
            return (tensor.to(to), tensor.dtype) if tensor.dtype.is_floating_point else (tensor, None)

        @staticmethod
        def decompress(tensor, context):
            return tensor if context is None else tensor.to(context)
    return Cast


FP16Compressor = _cast("fp16", torch.float16)
BF16Compressor = _cast("bf16", torch.bfloat16)


class Compression:
    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
