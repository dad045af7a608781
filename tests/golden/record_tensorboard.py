#!/usr/bin/env python3
"""Records tensorboard.txt: what keras.callbacks.TensorBoard and CSVLogger write for a small multi-layer perceptron, and
the buckets of tf.summary.histogram. Needs TensorFlow and TensorBoard.

A line a series: folder, tag, plugin, type and shape of its tensors, steps."""
import collections
import os
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
import tensorflow as tf
from tensorboard.plugins.histogram.summary_v2 import _buckets


def train(folder):
    keras.utils.set_random_seed(1)
    features = np.random.rand(600, 28, 28, 1).astype("float32")
    labels = np.random.randint(0, 10, 600)
    layers = [keras.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(8, activation="relu"),
              keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    board = keras.callbacks.TensorBoard(folder, histogram_freq=1, write_graph=False, write_images=True, update_freq=5,
                                        write_steps_per_second=True)
    table = keras.callbacks.CSVLogger(os.path.join(folder, "log.csv"))
    model.fit(features, labels, batch_size=64, epochs=2, validation_data=(features, labels), verbose=0,
              callbacks=[board, table])


def series(folder):
    found = collections.OrderedDict()
    for part in ("train", "validation"):
        for name in sorted(os.listdir(os.path.join(folder, part))):
            for event in tf.compat.v1.train.summary_iterator(os.path.join(folder, part, name)):
                for value in event.summary.value:
                    tensor = value.tensor
                    shape = "x".join(str(extent.size) for extent in tensor.tensor_shape.dim) or "scalar"
                    key = (part, value.tag, value.metadata.plugin_data.plugin_name, str(tensor.dtype), shape)
                    found.setdefault(key, []).append(str(event.step))
    return found


def histogram(name, values):
    buckets = _buckets(tf.constant(values, tf.float32)).numpy()
    print("buckets", name, *("%.9g" % value for value in values))
    print("edges", name, *("%.17g" % edge for edge in list(buckets[:, 0]) + [buckets[-1, 1]]))
    print("counts", name, *(int(count) for count in buckets[:, 2]))


with tempfile.TemporaryDirectory() as scratch:
    train(scratch)
    for key, steps in series(scratch).items():
        print("series", *key, ",".join(steps))
    with open(os.path.join(scratch, "log.csv"), encoding="ascii") as log:
        print("csv", log.readline().strip())
rng = np.random.default_rng(5)
histogram("normal", rng.normal(size=40).astype("float32"))
histogram("equal", np.full(3, 0.25, "float32"))
histogram("two", np.array([-1, 2], "float32"))
print("recorded with TensorFlow", tf.__version__, "and Keras", keras.__version__, file=sys.stderr)
