"""Batch normalization over the batches of all ranks: Horovod's SyncBatchNorm, on any device."""
from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..process_sets import global_process_set
from .ops import Sum, allreduce


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d to 3d; in training mean and variance are those of all ranks' examples, whose numbers may
    differ. One all-reduce of 2 C + 1 float64 in the forward pass, and one in the backward pass."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 process_set=global_process_set, **options):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **options)
        self.process_set = process_set

    def _check_input_dim(self, tensor):
        if tensor.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {tensor.dim()}D input)")

    def forward(self, tensor):
        self._check_input_dim(tensor)
        if not self.training and self.track_running_stats:
            return super().forward(tensor)
        axes = [axis for axis in range(tensor.dim()) if axis != 1]
        wide = tensor.double()
        count = tensor.new_tensor([tensor.numel() // tensor.shape[1]], dtype=torch.float64)
        local = torch.cat([wide.sum(axes), (wide * wide).sum(axes), count])
        total = allreduce(local, op=Sum, process_set=self.process_set)
        features = tensor.shape[1]
        number = total[-1].detach()
        mean = total[:features] / number
        variance = total[features:2 * features] / number - mean * mean
        self._update(mean.detach(), variance.detach(), number)
        return self._normalized(tensor, mean, variance)

    def _update(self, mean, variance, number) -> None:
        if not self.track_running_stats or not self.training:
            return
        self.num_batches_tracked += 1
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        unbiased = variance * number / (number - 1).clamp(min=1)
        self.running_mean.mul_(1 - share).add_(mean.to(self.running_mean.dtype), alpha=share)
        self.running_var.mul_(1 - share).add_(unbiased.to(self.running_var.dtype), alpha=share)

    def _normalized(self, tensor, mean, variance):
        shape = [1, -1] + [1] * (tensor.dim() - 2)
        scale = torch.rsqrt(variance.clamp(min=0) + self.eps)
        found = (tensor.double() - mean.view(shape)) * scale.view(shape)
        found = found.to(tensor.dtype)
        return found * self.weight.view(shape) + self.bias.view(shape) if self.affine else found
