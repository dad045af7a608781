#!/usr/bin/env python3
"""Records callbacks.txt: what keras.callbacks.EarlyStopping and ReduceLROnPlateau decide on rows of numbers.

    stopping PATIENCE MIN_DELTA MODE BASELINE|none START : NUMBERS : epoch after which it stops (-1: never), best epoch
    plateau PATIENCE MIN_DELTA MODE FACTOR COOLDOWN MIN_LR : NUMBERS : learning rate after each epoch, from 1

No row has NaN where counting begins: Keras takes it for the best number that there will be."""
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np

ROWS = ([3, 2, 2.5, 1.9, 1.95, 1.95, 1.95, 1.5, 1.6, 1.7, 1.8, 1.9],
        [1, 1, 1, 1, 1, 1, 1],
        [5, float("nan"), 4.5, float("nan"), 4, 3.99, 3.98, 3.97, 3.96, 3.95, 3.94],
        [0.5, 0.6, 0.7, 0.65, 0.7, 0.71, 0.5, 0.4, 0.9],
        list(np.random.default_rng(3).normal(size=30).cumsum().round(3)))


def model():
    made = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(1.0), "mse")
    return made


def numbers(row):
    return " ".join("%.9g" % value for value in row)


def stopping(row, patience, min_delta, mode, baseline, start):
    callback = keras.callbacks.EarlyStopping("number", min_delta, patience, mode=mode, baseline=baseline,
                                             restore_best_weights=True, start_from_epoch=start)
    callback.set_model(model())
    callback.on_train_begin()
    stopped = -1
    for epoch, value in enumerate(row):
        callback.on_epoch_end(epoch, {"number": value})
        if callback.model.stop_training:
            stopped = epoch
            break
    print("stopping", patience, min_delta, mode, "none" if baseline is None else baseline, start, ":", numbers(row), ":",
          stopped, callback.best_epoch)


def plateau(row, patience, min_delta, mode, factor, cooldown, min_lr):
    callback = keras.callbacks.ReduceLROnPlateau("number", factor, patience, mode=mode, min_delta=min_delta,
                                                 cooldown=cooldown, min_lr=min_lr)
    callback.set_model(model())
    callback.on_train_begin()
    rates = []
    for epoch, value in enumerate(row):
        callback.on_epoch_end(epoch, {"number": value})
        rates.append(float(keras.ops.convert_to_numpy(callback.model.optimizer.learning_rate)))
    print("plateau", patience, min_delta, mode, factor, cooldown, min_lr, ":", numbers(row), ":", numbers(rates))


with open(pathlib.Path(__file__).parent / "callbacks.txt", "w", encoding="ascii") as sys.stdout:
    print("# Recorded by record_callbacks.py with keras", keras.__version__)
    for row in ROWS:
        for mode in ("min", "max"):
            stopping(row, 2, 0, mode, None, 0)
            stopping(row, 3, 0.06, mode, None, 0)
            stopping(row, 1, 0, mode, 1.94, 2)
            stopping(row, 0, 0, mode, None, 0)
            plateau(row, 2, 0.0001, mode, 0.5, 0, 0)
            plateau(row, 1, 0.06, mode, 0.1, 2, 0.005)
