#!/usr/bin/env python3
"""Writes tests/golden/weights/: one small model's variables in every form in which Keras keeps weights.

Element i of the model's variable k is k + i / 16. Needs only a Python with keras, h5py and numpy; the tests never need it.
"""

import os
import pathlib

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import h5py
import keras
import numpy as np
from keras.src.legacy.saving import legacy_h5_format

FOLDER = pathlib.Path(__file__).resolve().parent / "weights"


def make_model():
    """Names that Keras gives itself, and others; every kind of layer that has variables."""
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((6, 6, 1)),
        layers.Conv2D(2, 3, name="Conv1", use_bias=False),
        layers.BatchNormalization(name="bn_Conv1"),
        layers.ReLU(),
        layers.DepthwiseConv2D(3),
        layers.BatchNormalization(),
        layers.Flatten(),
        layers.Dropout(0.25),
        layers.Dense(3),
        layers.Dense(2, name="predictions"),
    ])
    weights = model.get_weights()
    model.set_weights([k + np.arange(w.size, dtype=np.float32).reshape(w.shape) / 16 for k, w in enumerate(weights)])
    return model


def write_norms(path):
    """Normalizations of each position, whose variables Keras 3 numbers too."""
    layers = keras.layers
    model = keras.Sequential([keras.Input((3,)), layers.LayerNormalization(), layers.RMSNormalization(name="rms"),
                              layers.LayerNormalization(center=False, scale=False), layers.RMSNormalization(),
                              layers.LayerNormalization(name="last")])
    model.set_weights([k + np.arange(3, dtype=np.float32) / 16 for k in range(6)])
    model.save_weights(path)


def write_sequences(folder):
    """Layers whose variables are a cell's, and an embedding, in both of Keras 3's ways. A name of its own, and a number."""
    layers = keras.layers
    model = keras.Sequential([keras.Input((7,)), layers.Embedding(5, 4), layers.Conv1D(4, 2), layers.LSTM(3, return_sequences=True),
                              layers.GRU(2, name="mine", return_sequences=True), layers.LSTM(2, use_bias=False)])
    weights = model.get_weights()
    model.set_weights([k + np.arange(w.size, dtype=np.float32).reshape(w.shape) / 16 for k, w in enumerate(weights)])
    model.save_weights(folder / "sequences.weights.h5")
    with h5py.File(folder / "sequences.h5", "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, model)


def write_keras2(model, path):
    """As Keras 2 wrote it: names of fixed length with ":0", a depthwise kernel's own name, the list in pieces."""
    with h5py.File(path, "w") as file:
        names = np.asarray([layer.name.encode() for layer in model.layers])
        file.attrs["layer_names0"], file.attrs["layer_names1"] = names[:4], names[4:]
        for layer in model.layers:
            group = file.create_group(layer.name)
            paths = ["/".join(w.path.split("/")[-2:]) + ":0" for w in layer.weights]
            if isinstance(layer, keras.layers.DepthwiseConv2D):
                paths[0] = paths[0].replace("kernel", "depthwise_kernel")
            group.attrs["weight_names"] = np.asarray([p.encode() for p in paths])
            for at, weight in zip(paths, layer.weights):
                group.create_dataset(at, data=weight.numpy())


def write_unnamed(model, path):
    """As a Keras 3 that keeps no names of layers."""
    model.save_weights(path)
    with h5py.File(path, "a") as file:
        file.visititems(lambda _, item: item.attrs.clear())


def write_refused():
    """Whole files that are not read."""
    with h5py.File(FOLDER / "latest.h5", "w", libver="latest") as file:
        file.attrs["layer_names"] = [b"a"]
    with h5py.File(FOLDER / "chunks.h5", "w") as file:
        file.attrs["layer_names"] = [b"a"]
        file.create_group("a").attrs["weight_names"] = [b"a/kernel"]
        file.create_dataset("a/a/kernel", data=np.zeros((8, 8), np.float32), compression="gzip")
    with h5py.File(FOLDER / "double.h5", "w") as file:
        file.attrs["layer_names"] = [b"a"]
        file.create_group("a").attrs["weight_names"] = [b"a/kernel"]
        file.create_dataset("a/a/kernel", data=np.zeros(3))


FOLDER.mkdir(exist_ok=True)
made = make_model()
with h5py.File(FOLDER / "keras3.h5", "w") as whole:
    legacy_h5_format.save_weights_to_hdf5_group(whole, made)
write_keras2(made, FOLDER / "keras2.h5")
made.compile("adam", "mse")
made.save_weights(FOLDER / "named.weights.h5")
write_unnamed(made, FOLDER / "unnamed.weights.h5")
made.save(FOLDER / "whole.h5")
made.save(FOLDER / "whole.keras")
arrays = {"/".join(w.path.split("/")[-2:]): w.numpy() for w in made.weights}
np.savez(FOLDER / "weights.npz", **arrays)
np.savez_compressed(FOLDER / "surplus.npz", **arrays, **{"surplus/bias": np.zeros(4, np.float32)})
np.savez(FOLDER / "other.npz", **{"other/kernel": np.zeros((2, 3), np.float32)})
write_norms(FOLDER / "norms.weights.h5")
write_sequences(FOLDER)
write_refused()
