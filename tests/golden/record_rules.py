#!/usr/bin/env python3
"""Records Keras' losses, metrics, optimizers, schedules and short trainings; writes the .txt files beside this script.

As record.py: needs a Python with tensorflow, and running it again with the same version reproduces the files."""

from record import normal, write  # first: it sets what TensorFlow reads when it is imported
from record_images import along, batch, fill, layers, lenet, name_of, step

import keras
import numpy as np
import tensorflow as tf

ROWS, CLASSES, STEPS = 6, 5, 24


# --- losses and metrics --------------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(np.float32)


def loss_cases(random):
    """Name: (Keras' loss, outputs, targets)."""
    k = keras.losses
    logits, single = normal(random, ROWS, CLASSES, scale=2.0), normal(random, ROWS, 1, scale=2.0)
    labels, ones = random.integers(0, CLASSES, ROWS), random.integers(0, 2, ROWS)
    hot, both = np.eye(CLASSES, dtype=np.float32)[labels], ones.astype(np.float32)[:, None]
    shares, chance = softmax(logits), (1 / (1 + np.exp(-single))).astype(np.float32)
    given = {"logits": logits, "single": single, "labels": labels, "ones": ones, "shares": shares, "chance": chance}
    return given, {
        "sparse": (k.SparseCategoricalCrossentropy(from_logits=True), logits, labels),
        "sparse_probabilities": (k.SparseCategoricalCrossentropy(), shares, labels),
        "categorical": (k.CategoricalCrossentropy(from_logits=True), logits, hot),
        "categorical_smooth": (k.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), logits, hot),
        "categorical_probabilities": (k.CategoricalCrossentropy(label_smoothing=0.1), 2 * shares, hot),
        "binary": (k.BinaryCrossentropy(from_logits=True), single, both),
        "binary_several": (k.BinaryCrossentropy(from_logits=True, label_smoothing=0.2), logits, hot),
        "binary_probabilities": (k.BinaryCrossentropy(label_smoothing=0.2), chance, both),
        "squares": (k.MeanSquaredError(), logits, hot),
        "squares_single": (k.MeanSquaredError(), single, both),
    }


def record_losses():
    tensors, cases = loss_cases(np.random.default_rng(11))
    for name, (loss, outputs, targets) in cases.items():
        variable = tf.Variable(outputs)
        with tf.GradientTape() as tape:
            value = loss(targets, tf.identity(variable))
        tensors |= {f"{name}/loss": value, f"{name}/gradient": tape.gradient(value, variable)}
    m, logits, labels = keras.metrics, tensors["logits"], tensors["labels"]
    hot, both = np.eye(CLASSES, dtype=np.float32)[labels], tensors["ones"].astype(np.float32)[:, None]
    for name, metric, targets, outputs in (
        ("sparse_categorical_accuracy", m.SparseCategoricalAccuracy(), labels, logits),
        ("categorical_accuracy", m.CategoricalAccuracy(), hot, logits),
        ("top_2", m.SparseTopKCategoricalAccuracy(k=2), labels, logits),
        ("top_3", m.TopKCategoricalAccuracy(k=3), hot, logits),
        ("binary_accuracy", m.BinaryAccuracy(threshold=0.5), both, tensors["chance"]),
        ("binary_accuracy_logits", m.BinaryAccuracy(threshold=0.0), both, tensors["single"]),
        ("binary_accuracy_several", m.BinaryAccuracy(threshold=0.0), hot, logits),
    ):
        metric.update_state(targets, outputs)
        tensors["metric/" + name] = metric.result()
    write("losses.txt", "Losses of given outputs, their gradients, and metrics.", tensors)


# --- optimizers ----------------------------------------------------------------------------------------------------


def excluding(optimizer):
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


O, S = keras.optimizers, keras.optimizers.schedules
RULES = {
    "adamw": lambda: O.AdamW(0.01, weight_decay=0.1),
    "adamw_excluded": lambda: excluding(O.AdamW(0.01, weight_decay=0.1)),
    "rmsprop": lambda: O.RMSprop(0.01),
    "rmsprop_momentum": lambda: O.RMSprop(0.01, rho=0.8, momentum=0.5, epsilon=1e-4),
    "rmsprop_centered": lambda: O.RMSprop(0.01, centered=True, epsilon=1e-3),
    "rmsprop_both": lambda: O.RMSprop(0.01, momentum=0.9, centered=True, epsilon=1e-3),
    "lamb": lambda: O.Lamb(0.01),
    "lamb_decay": lambda: O.Lamb(0.01, weight_decay=0.05),
    "sgd_decay": lambda: O.SGD(0.05, momentum=0.9, weight_decay=0.1),
    "clipvalue": lambda: O.SGD(0.05, clipvalue=0.3),
    "clipnorm": lambda: O.Adam(0.01, clipnorm=0.5),
    "global_clipnorm": lambda: O.SGD(0.05, momentum=0.9, global_clipnorm=0.7),
    "accumulated": lambda: O.Adam(0.01, gradient_accumulation_steps=4, global_clipnorm=0.7),
    "exponential": lambda: O.SGD(S.ExponentialDecay(0.1, 10, 0.5)),
    "cosine_warm": lambda: O.Adam(S.CosineDecay(0.0, 14, alpha=0.1, warmup_target=0.01, warmup_steps=8)),
}
SCHEDULES = {
    "exponential": S.ExponentialDecay(0.1, 10, 0.5),
    "staircase": S.ExponentialDecay(0.1, 7, 0.9, staircase=True),
    "cosine": S.CosineDecay(0.1, 20),
    "cosine_alpha": S.CosineDecay(0.2, 20, alpha=0.1),
    "cosine_warm": S.CosineDecay(0.01, 14, alpha=0.1, warmup_target=0.1, warmup_steps=8),
    "piecewise": S.PiecewiseConstantDecay([5, 12, 20], [0.1, 0.05, 0.01, 0.001]),
}


def record_rules():
    random = np.random.default_rng(12)
    initial = {"kernel": normal(random, 3, 4), "bias": normal(random, 5, scale=0.1)}
    gradients = {key: normal(random, STEPS, *value.shape) for key, value in initial.items()}
    gradients["kernel"] *= np.linspace(0.01, 1, STEPS, dtype=np.float32)[:, None, None]
    tensors = {f"initial/{key}": v for key, v in initial.items()} | {f"gradients/{key}": g for key, g in gradients.items()}
    for rule, make in RULES.items():
        optimizer, rows = make(), {key: [] for key in initial}
        variables = {key: keras.Variable(value, name=key) for key, value in initial.items()}
        for i in range(STEPS):
            optimizer.apply([tf.constant(gradients[key][i]) for key in variables], list(variables.values()))
            for key, variable in variables.items():
                rows[key].append(variable.numpy().copy())
        tensors |= {f"{rule}/{key}": np.stack(trajectory) for key, trajectory in rows.items()}
    for name, schedule in SCHEDULES.items():
        tensors["schedule/" + name] = [float(schedule(i)) for i in range(STEPS)]
    write("rules.txt", f"Two variables after each of {STEPS} steps over given gradients; schedules.", tensors)


# --- trainings -----------------------------------------------------------------------------------------------------


def mlp(regularizer=None):
    return keras.Sequential([
        keras.Input((3, 4)),
        layers.Flatten(name="flatten"),
        layers.Dense(9, activation="relu", name="dense", kernel_regularizer=regularizer),
        layers.Dense(7, activation="relu", name="dense_1"),
        layers.Dense(5, name="dense_2", kernel_regularizer=regularizer),
    ])


# Of the learning rate's share that a model is trained with
TRAINED = {
    "sgd": lambda share: O.SGD(0.05 * share),
    "momentum": lambda share: O.SGD(0.02 * share, momentum=0.9),
    "nesterov": lambda share: O.SGD(0.02 * share, momentum=0.9, nesterov=True),
    "adam": lambda share: O.Adam(0.001 * share),
    "adamw": lambda share: O.AdamW(0.001 * share, weight_decay=0.05),
    "rmsprop": lambda share: O.RMSprop(0.001 * share, momentum=0.5, centered=True, epsilon=1e-4),
    "lamb": lambda share: O.Lamb(0.01 * share, weight_decay=0.01),
}
MODELS = {
    "mlp": (mlp, (16, (3, 4), 5)),
    "lenet": (lenet, (16, (28, 28, 1), 10)),
}


def train(model, data, optimizer):
    """The losses, and the weights' lengths at the end."""
    (x, labels), losses = data, []
    fill(model)
    for _ in range(20):
        loss, gradients = step(model, x, labels)
        optimizer.apply(gradients, model.trainable_variables)
        losses.append(float(loss))
    return losses, [along(name_of(v), v.numpy()) for v in sorted(model.trainable_variables, key=name_of)]


def record_regularized(tensors):
    """A step of Keras' own, whose loss has the regularisers' part."""
    model, (x, labels) = mlp(keras.regularizers.L1L2(l1=0.01, l2=0.02)), batch(16, (3, 4), 5)
    fill(model)
    loss_fn, optimizer, losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True), O.SGD(0.1), []
    for _ in range(20):
        with tf.GradientTape() as tape:
            loss = loss_fn(labels, model(x, training=True)) + tf.add_n(model.losses)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        losses.append(float(loss))
    tensors["regularized/losses"] = losses
    tensors["regularized/final"] = [along(name_of(v), v.numpy()) for v in sorted(model.trainable_variables, key=name_of)]


def record_trainings():
    tensors = {}
    for name, (make, shape) in MODELS.items():
        for rule, optimizer in TRAINED.items():
            keras.backend.clear_session()
            losses, lengths = train(make(), batch(*shape), optimizer(1))
            tensors |= {f"{name}/{rule}/losses": losses, f"{name}/{rule}/final": lengths}
    record_regularized(tensors)
    write("trainings.txt", "Losses of short trainings, and lengths of the weights after them (by name).", tensors)


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    record_losses()
    record_rules()
    record_trainings()
