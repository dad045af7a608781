"""Horovod's elastic state of Keras, and the callbacks that keep it up to date."""
from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..elastic import State
from ..tensorflow.elastic import TensorFlowKerasState, run


class KerasState(TensorFlowKerasState):
    """A built model, its optimizer, and other attributes such as epoch and batch."""


class CommitStateCallback(tf.keras.callbacks.Callback):
    """Commits the state after each batches_per_commit batches, and at the end of the epoch. It stands behind the callbacks
    that update the state."""

    def __init__(self, state: State, batches_per_commit: int = 1):
        super().__init__()
        self.state, self.batches_per_commit = state, batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs=None) -> None:
        self.batches_remaining = self.batches_per_commit  # alike on all ranks after a recovery

    def on_train_batch_end(self, batch: int, logs=None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.state.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        self.state.commit()


class UpdateBatchStateCallback(tf.keras.callbacks.Callback):
    """state.batch is the number of batches that this epoch has had, those before a recovery too; 0 at its end. Give fit the
    steps that are left: fit does not look for them."""

    def __init__(self, state: Any):
        super().__init__()
        self.state, self._begin = state, 0

    def on_train_begin(self, logs=None) -> None:
        self._begin = self.state.batch

    def on_train_batch_end(self, batch: int, logs=None) -> None:
        self.state.batch = self._begin + batch + 1

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        self.state.batch = self._begin = 0


class UpdateEpochStateCallback(tf.keras.callbacks.Callback):
    """state.epoch is the number of epochs that are done, those before a recovery too: fit counts its own from 0."""

    def __init__(self, state: Any):
        super().__init__()
        self.state, self.initial_epoch = state, state.epoch

    def on_train_begin(self, logs=None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        self.state.epoch = self.initial_epoch + epoch + 1
