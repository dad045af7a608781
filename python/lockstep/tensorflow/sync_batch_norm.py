"""Batch normalization over the batches of all ranks: Horovod's SyncBatchNormalization, in Keras 3 and in tf-keras."""
from __future__ import annotations

import tensorflow as tf

from .ops import Sum, allreduce


def _over_all(mean: tf.Tensor, variance: tf.Tensor, count: tf.Tensor):
    """Mean and variance of all ranks' examples, of those of this rank's count examples. One all-reduce of 2 C + 1 float64."""
    wide_mean, wide_variance = tf.cast(mean, tf.float64), tf.cast(variance, tf.float64)
    size = tf.size(mean)
    local = tf.concat([tf.reshape(wide_mean, [-1]) * count, tf.reshape(wide_variance + wide_mean * wide_mean, [-1]) * count,
                       tf.reshape(count, [1])], 0)
    total = allreduce(local, op=Sum)
    number = tf.stop_gradient(total[-1])
    whole = total[:size] / number
    square = tf.maximum(total[size:2 * size] / number - whole * whole, 0.0)
    return tf.reshape(tf.cast(whole, mean.dtype), tf.shape(mean)), tf.reshape(tf.cast(square, mean.dtype), tf.shape(mean))


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """As BatchNormalization; in training mean and variance are those of all ranks' examples, whose numbers may differ."""

    def __init__(self, fused=False, **options):
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        options["name"] = options.get("name") or "sync_batch_normalization"
        if hasattr(tf.keras.layers.BatchNormalization, "_calculate_mean_and_var"):  # tf-keras
            options["fused"] = False
        super().__init__(**options)

    def _moments(self, inputs, *arguments, **options):
        mean, variance = super()._moments(inputs, *arguments, **options)
        mask = options.get("mask", arguments[-1] if len(arguments) in (1, 3) else None)
        channels = tf.cast(tf.size(mean), tf.float64)
        count = tf.cast(tf.size(inputs), tf.float64) / channels
        if mask is not None:
            count = count * tf.reduce_mean(tf.cast(mask, tf.float64))
        return _over_all(mean, variance, count)
