#!/usr/bin/env python3
"""Records Keras' Embedding before a mean and before a dense layer: losses and gradients; writes embedding.txt beside this
script.

As record.py: needs a Python with tensorflow, and running it again with the same version reproduces the file."""

from record import normal, write  # first: it sets what TensorFlow reads when it is imported

import keras
import numpy as np
import tensorflow as tf

ROWS, COUNT, IDS, WIDTH, CLASSES = 6, 5, 9, 4, 3


def record_embedding():
    random = np.random.default_rng(31)
    ids, labels = random.integers(0, IDS, (ROWS, COUNT)), random.integers(0, CLASSES, ROWS)
    ids[0] = ids[0, 0]  # one five times in a row
    tensors = {"ids": ids, "labels": labels}
    for name, middle in (("mean", keras.layers.GlobalAveragePooling1D()), ("flat", keras.layers.Flatten())):
        model = keras.Sequential([keras.Input((COUNT,)), keras.layers.Embedding(IDS, WIDTH, name="embedding"), middle,
                                  keras.layers.Dense(CLASSES, name="dense")])
        model.set_weights([normal(random, *v.shape, scale=0.5) for v in model.weights])
        with tf.GradientTape() as tape:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, model(ids, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        tensors[f"{name}/loss"] = loss
        for variable, gradient in zip(model.trainable_variables, gradients):
            key = "/".join(variable.path.split("/")[-2:])
            tensors[f"{name}/{key}"] = variable.numpy()
            tensors[f"{name}/gradient/{key}"] = tf.convert_to_tensor(gradient)
    write("embedding.txt", "Embedding, then a mean or all rows side by side, then a dense layer.", tensors)


record_embedding()
