#!/usr/bin/env python3
"""Records Keras' losses and metrics of targets that are numbers, with sample weights and without, and short trainings with
them and with class weights; writes regression.txt beside this script.

As record.py: needs a Python with tensorflow, and running it again with the same version reproduces the file."""

from record import normal, write  # first: it sets what TensorFlow reads when it is imported

import keras
import numpy as np
import tensorflow as tf

L, M = keras.losses, keras.metrics
LOSSES = {
    "mean_squared_error": L.MeanSquaredError(),
    "mean_absolute_error": L.MeanAbsoluteError(),
    "huber": L.Huber(),
    "huber_quarter": L.Huber(delta=0.25),
    "binary_crossentropy": L.BinaryCrossentropy(from_logits=True),
    "categorical_crossentropy": L.CategoricalCrossentropy(from_logits=True),
}
SHAPES = {"single": (6, 1), "flat": (6, 3), "image": (4, 2, 3)}
EXAMPLES, WIDTH, OUTPUTS = 24, 4, 2


def targets_of(name, random, shape):
    """Numbers; chances where the loss is an entropy, which add up to 1 where they are those of one class."""
    if not name.endswith("crossentropy"):
        return normal(random, *shape)
    chances = random.random(shape)
    if name.startswith("categorical"):
        chances /= chances.sum(axis=-1, keepdims=True)
    return chances.astype(np.float32)


def record_losses(tensors):
    random = np.random.default_rng(21)
    for name, loss in LOSSES.items():
        for of, shape in SHAPES.items():
            if name.startswith("categorical") and of != "flat":
                continue
            outputs, targets = normal(random, *shape), targets_of(name, random, shape)
            weights = (2 * random.random(shape[0])).astype(np.float32)
            key = f"{name}/{of}"
            tensors |= {f"{key}/outputs": outputs, f"{key}/targets": targets, f"{key}/weights": weights}
            along = weights.reshape((-1,) + (1,) * (len(shape) - 2))  # of an example's losses, each
            for how, given in (("plain", None), ("weighted", along)):
                variable = tf.Variable(outputs)
                with tf.GradientTape() as tape:
                    value = loss(targets, tf.identity(variable), sample_weight=given)
                tensors |= {f"{key}/{how}/loss": value, f"{key}/{how}/gradient": tape.gradient(value, variable)}
                for metric in (M.MeanSquaredError(), M.MeanAbsoluteError()):
                    metric.update_state(targets, outputs, sample_weight=given)
                    tensors[f"{key}/{how}/{metric.name}"] = metric.result()


def model_of(loss, outputs, metrics):
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(5, activation="relu", name="dense"),
                              keras.layers.Dense(outputs, name="dense_1")])
    model.compile(keras.optimizers.SGD(0.05), loss, metrics=metrics, weighted_metrics=metrics)
    return model


def name_of(variable):
    return "/".join(variable.path.split("/")[-2:])


def record_training(tensors, name, loss, data, metric, **fit):
    x, y, weights = data
    model = model_of(loss, 3 if y.dtype == np.int32 else OUTPUTS, [metric])
    given = {} if weights is None else {"sample_weight": weights}
    before = [v.numpy() for v in model.trainable_variables]
    history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0, **given, **fit,
                        validation_data=(x, y) if weights is None else (x, y, weights)).history
    for key, values in history.items():
        tensors[f"{name}/{key}"] = values
    for variable, first in zip(model.trainable_variables, before):
        tensors[f"{name}/before/{name_of(variable)}"] = first
        tensors[f"{name}/after/{name_of(variable)}"] = variable.numpy()


def record_trainings(tensors):
    random = np.random.default_rng(22)
    x, y = normal(random, EXAMPLES, WIDTH), normal(random, EXAMPLES, OUTPUTS)
    labels = random.integers(0, 3, EXAMPLES).astype(np.int32)
    weights = (3 * random.random(EXAMPLES)).astype(np.float32)
    tensors |= {"x": x, "y": y, "labels": labels, "weights": weights}
    mae, right = "mean_absolute_error", "sparse_categorical_accuracy"
    sparse = L.SparseCategoricalCrossentropy(from_logits=True)
    record_training(tensors, "train_mse", L.MeanSquaredError(), (x, y, None), mae)
    record_training(tensors, "train_mae", L.MeanAbsoluteError(), (x, y, None), mae)
    record_training(tensors, "train_huber", L.Huber(0.5), (x, y, None), mae)
    record_training(tensors, "train_mse_weighted", L.MeanSquaredError(), (x, y, weights), mae)
    record_training(tensors, "train_labels_weighted", sparse, (x, labels, weights), right)
    record_training(tensors, "train_class_weight", sparse, (x, labels, None), right, class_weight={0: 0.5, 2: 4.0})


if __name__ == "__main__":
    recorded = {}
    record_losses(recorded)
    record_trainings(recorded)
    write("regression.txt", "Losses, metrics and trainings of targets that are numbers, and of weighted examples.", recorded)
