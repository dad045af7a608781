#!/usr/bin/env python3
"""Records layers over sequences by Keras with torch's gradients: networks of LSTM, GRU, Conv1D and pools over time, the
loss of a batch and the gradients of all variables; writes recurrent.txt beside this script.

Needs only a Python with keras, torch and numpy. Running it again with the same versions on the same instruction set
reproduces the file. No average has padding: torch's counts its zeros, and TensorFlow's does not."""

import os

os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import torch
from keras import layers

from torch_text import version, write

ROWS, POSITIONS, CHANNELS, CLASSES = 5, 11, 4, 3
NETWORKS = {
    "lstm": [layers.LSTM(5, return_sequences=True, name="a"), layers.LSTM(6, name="b")],
    "gru": [layers.GRU(5, return_sequences=True, name="a"), layers.GRU(6, name="b")],
    "no_bias": [layers.LSTM(4, use_bias=False, return_sequences=True, name="a"), layers.GRU(3, use_bias=False, name="b")],
    "valid": [layers.Conv1D(6, 3, name="a"), layers.MaxPooling1D(), layers.Conv1D(4, 2, strides=2, name="b"), layers.Flatten()],
    "same": [layers.Conv1D(6, 4, strides=2, padding="same", activation="relu", name="a"),
             layers.AveragePooling1D(3, 2), layers.Conv1D(6, 2, padding="same", groups=2, name="b"),
             layers.GlobalAveragePooling1D()],
    "causal": [layers.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="tanh", name="a"),
               layers.MaxPooling1D(2, 1, padding="same"), layers.Conv1D(5, 2, padding="causal", use_bias=False, name="b"),
               layers.GlobalMaxPooling1D()],
    "mixed": [layers.Conv1D(6, 3, padding="same", activation="tanh", name="a"), layers.MaxPooling1D(2),
              layers.GRU(5, return_sequences=True, name="b"), layers.AveragePooling1D(2), layers.LSTM(4, name="c")],
}


def named(model):
    """Lockstep's names: a cell's variables are its layer's."""
    return {f"{layer.name}/{variable.name}": variable for layer in model.layers for variable in layer.weights}


def record(name, middle, random, tensors):
    """All variables are random, so that biases count too."""
    model = keras.Sequential([keras.Input((POSITIONS, CHANNELS)), *middle, layers.Dense(CLASSES, name="head")])
    for variable in model.variables:
        variable.assign(random.normal(0, 0.4, variable.shape).astype(np.float32))
    x = random.normal(0, 1, (ROWS, POSITIONS, CHANNELS)).astype(np.float32)
    labels = random.integers(0, CLASSES, ROWS)
    loss = torch.nn.functional.cross_entropy(model(torch.tensor(x), training=True), torch.tensor(labels))
    loss.backward()
    tensors |= {f"{name}/x": x, f"{name}/labels": labels, f"{name}/loss": loss}
    for key, variable in named(model).items():
        tensors[f"{name}/{key}"] = variable.value
        tensors[f"{name}/gradient/{key}"] = variable.value.grad


def main():
    random, tensors = np.random.default_rng(20), {}
    for name, middle in NETWORKS.items():
        record(name, middle, random, tensors)
    write(__file__, "LSTM, GRU, Conv1D and pools over time by Keras.",
          f"keras {keras.__version__}, torch {version()}, numpy {np.__version__}", tensors)


if __name__ == "__main__":
    main()
