#!/usr/bin/env python3
"""Records 20 steps of MobileNetV2 (width 0.35, 32 examples of 32 x 32) with each of Keras' optimizers, in float64 and in
float32; writes mobilenet.txt beside this script. As record.py: needs a Python with tensorflow.

Where an activation is within rounding of 0 or 6, ReLU6's mask falls one way or the other, and the gradient is another; batch
normalizations over 32 elements make the difference larger from step to step. So no two programs in float32 have the same
losses; each has those of float64 but for such an error, and Keras' own is the measure of it."""

from record import write  # first: it sets what TensorFlow reads when it is imported
from record_images import application, along, batch, fill, name_of, step
from record_rules import TRAINED

import keras
import numpy as np
import tensorflow as tf

STEPS = 20
# Of TRAINED's learning rates, so that the loss falls and rounding stays small beside that
SHARES = {"sgd": 4e-4, "momentum": 2e-4, "nesterov": 2e-4, "adam": 0.1, "adamw": 0.1, "rmsprop": 0.1, "lamb": 0.1}


def train(precision, rule, share):
    """The losses, and the weights' lengths at the end by name."""
    keras.backend.clear_session()
    keras.backend.set_floatx(precision)
    model, optimizer, losses = application(keras.applications.MobileNetV2, 32, alpha=0.35), TRAINED[rule](share), []
    x, labels = batch(32, (32, 32, 3), 2)
    fill(model)
    for _ in range(STEPS):
        loss, gradients = step(model, x.astype(precision), labels)
        optimizer.apply(gradients, model.trainable_variables)
        losses.append(float(loss))
    return losses, [along(name_of(v), v.numpy()) for v in sorted(model.trainable_variables, key=name_of)]


def distance(lengths, exact):
    """As tests/model/training_test.c has it: of all weights together, relative to their whole length."""
    wanted = np.array(exact)
    return np.sqrt(np.sum((np.array(lengths) - wanted) ** 2) / np.sum(wanted[:, 0] ** 2))


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tensors = {}
    for rule, share in SHARES.items():
        exact, final = train("float64", rule, share)
        losses, lengths = train("float32", rule, share)
        tensors |= {f"{rule}/share": share, f"{rule}/exact": exact, f"{rule}/float32": losses, f"{rule}/final": final,
                    f"{rule}/distance": distance(lengths, final)}
    write("mobilenet.txt", "MobileNetV2: losses of 20 steps in float64 and in float32; weights after them.", tensors)
