"""Horovod's callbacks for Keras."""
from __future__ import annotations

from typing import Any, Callable, Optional, Union

import numpy as np
import tensorflow as tf

from .._absent import absent
from ..process import rank, size, world
from ..tensorflow.variables import broadcast_variables, optimizer_variables


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Model and optimizer become those of root_rank, at the end of the first batch, when all variables are there. It also
    turns XLA off, which cannot compile collectives. Local variables of the model are left."""

    def __init__(self, root_rank: int, device: str = "", local_variables=None):
        super().__init__()
        self.root_rank, self._done = root_rank, False
        self._local = {id(variable): variable for variable in local_variables or ()}

    def register_local_var(self, variable: Any) -> None:
        self._local[id(variable)] = variable

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        model.jit_compile = False

    def on_train_batch_end(self, batch: int, logs=None) -> None:
        if self._done:
            return
        self._done = True
        broadcast_variables([one for one in self.model.variables if id(one) not in self._local], self.root_rank)
        broadcast_variables(optimizer_variables(self.model.optimizer), self.root_rank)


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """The epoch's metrics become their averages over all ranks. It stands before callbacks that use them."""

    def __init__(self, device: str = ""):
        super().__init__()

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        names = sorted(name for name, value in (logs or {}).items() if isinstance(value, (int, float, np.number)))
        if not names:
            return
        values = np.array([float(logs[name]) for name in names])
        world().all_reduce(values, 1)
        logs.update(zip(names, values.tolist()))


class LearningRateScheduleCallback(tf.keras.callbacks.Callback):
    """The learning rate is initial_lr times multiplier (a number, or a function of the epoch) from start_epoch to before
    end_epoch; once an epoch (staircase), or in each batch, for which the epoch is a fraction. Momentum is corrected where
    the optimizer's momentum is a variable."""

    def __init__(self, initial_lr: float, multiplier: Union[float, Callable[[float], float]], start_epoch: int = 0,
                 end_epoch: Optional[int] = None, staircase: bool = True, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None):
        super().__init__()
        self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
        self.staircase = staircase or not callable(multiplier)
        self.momentum_correction, self.steps_per_epoch = momentum_correction, steps_per_epoch
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self.current_epoch, self._momentum = 0, None

    def on_train_begin(self, logs=None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError("Could not autodetect the number of steps per epoch. Please specify the steps_per_epoch "
                                 f"parameter to the {type(self).__name__}() or fit().")

    def on_epoch_begin(self, epoch: int, logs=None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs=None) -> None:
        if self.current_epoch < self.start_epoch or (self.end_epoch is not None and self.current_epoch >= self.end_epoch):
            return
        if self.staircase and batch == 0:
            self._adjust(self.current_epoch)
        elif not self.staircase:
            self._adjust(self.current_epoch + batch / self.steps_per_epoch)

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        old, new = float(optimizer.learning_rate), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        momentum = getattr(optimizer, "momentum", None)
        if self.momentum_correction and hasattr(momentum, "assign") and old:
            self._momentum = float(momentum)
            momentum.assign(self._momentum * new / old)

    def on_train_batch_end(self, batch: int, logs=None) -> None:
        if self._momentum is not None:
            self.model.optimizer.momentum.assign(self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """From initial_lr / size to initial_lr over warmup_epochs, where initial_lr is that of all ranks together:
    lr / size * (epoch * (size - 1) / warmup + 1)."""

    def __init__(self, initial_lr: float, warmup_epochs: float = 5, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None, verbose: int = 0):
        def multiplier(epoch: float) -> float:
            epoch += 1.0 / self.steps_per_epoch
            return 1.0 / size() * (epoch * (size() - 1) / warmup_epochs + 1)
        super().__init__(initial_lr, multiplier, start_epoch=0, end_epoch=warmup_epochs, staircase=False,
                         momentum_correction=momentum_correction, steps_per_epoch=steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs=None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose and rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {float(self.model.optimizer.learning_rate):g}.")


__getattr__ = absent(__name__, {
    "BestModelCheckpoint": "give rank 0's callbacks ModelCheckpoint(filepath, save_best_only=True) of Keras",
})
