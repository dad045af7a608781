#!/usr/bin/env python3
"""Records what TensorFlow computes, for the tests of device and model: writes the .txt files beside this script.

Needs only a Python with tensorflow (the version is written into each file). Running it again with the same version on
the same instruction set reproduces the files byte for byte. The tests read the files and never need TensorFlow.

Format: '#' begins a comment line; "tensor NAME RANK DIMS..." is followed by the values as C hexadecimal floats.
"""

import os
import pathlib
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(__file__).resolve().parent
STEPS = 100


def hex_float(value):
    """A float32 as the shortest hexadecimal text: 0x1.8p+1."""
    if not np.isfinite(value):
        raise ValueError(f"{value} cannot be recorded")
    mantissa, exponent = float(value).hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}"


def write(name, what, tensors):
    lines = [
        f"# {what}",
        f"# Recorded by tests/golden/{pathlib.Path(sys.argv[0]).name} with tensorflow {tf.__version__}, keras {keras.__version__}, "
        f"numpy {np.__version__}.",
    ]
    for key, value in tensors.items():
        array = np.asarray(value, dtype=np.float32)
        lines.append(" ".join(["tensor", key, str(array.ndim), *map(str, array.shape)]))
        flat = [hex_float(v) for v in array.reshape(-1)]
        lines += [" ".join(flat[i : i + 8]) for i in range(0, len(flat), 8)]
    (FOLDER / name).write_text("\n".join(lines) + "\n", encoding="ascii")


def normal(random, *shape, scale=1.0):
    return (scale * random.standard_normal(shape)).astype(np.float32)


def record_dense():
    random = np.random.default_rng(1)
    tensors = {}
    for activation in ("linear", "relu"):
        x, w = normal(random, 7, 19), normal(random, 19, 11, scale=0.3)
        b, dy = normal(random, 11), normal(random, 7, 11)
        layer = keras.layers.Dense(11, activation=activation)
        layer.build(x.shape)
        layer.set_weights([w, b])
        inputs = tf.Variable(x)
        with tf.GradientTape() as tape:
            y = layer(inputs)
            scalar = tf.reduce_sum(y * dy)
        dx, dw, db = tape.gradient(scalar, [inputs, *layer.trainable_variables])
        named = {"x": x, "w": w, "b": b, "dy": dy, "y": y, "dx": dx, "dw": dw, "db": db}
        tensors |= {f"{activation}/{key}": value for key, value in named.items()}
    write("dense.txt", "Dense layers: outputs, and gradients of sum(y * dy).", tensors)


def small_mlp(random):
    """Flatten, two hidden layers with ReLU, logits; and the weights by variable name."""
    layers = [
        keras.layers.Flatten(name="flatten"),
        keras.layers.Dense(9, activation="relu", name="dense"),
        keras.layers.Dense(7, activation="relu", name="dense_1"),
        keras.layers.Dense(5, name="dense_2"),
    ]
    model = keras.Sequential([keras.Input((3, 4)), *layers])
    model.set_weights([normal(random, *v.shape, scale=0.4) for v in model.weights])
    return model, {"/".join(v.path.split("/")[-2:]): v for v in model.trainable_variables}


def losses():
    return {
        "sparse": (keras.losses.SparseCategoricalCrossentropy(from_logits=True), lambda labels: labels),
        "categorical": (keras.losses.CategoricalCrossentropy(from_logits=True), lambda labels: np.eye(5)[labels]),
    }


def record_mlp():
    random = np.random.default_rng(2)
    model, variables = small_mlp(random)
    x = normal(random, 6, 3, 4)
    labels = random.integers(0, 5, 6)
    tensors = {"x": x, "labels": labels} | {key: v.numpy() for key, v in variables.items()}
    for name, (loss, expand) in losses().items():
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            value = loss(expand(labels), logits)
        gradients = tape.gradient(value, list(variables.values()))
        tensors |= {f"{name}/loss": value, f"{name}/logits": logits}
        tensors |= {f"{name}/{key}": g for key, g in zip(variables, gradients)}
    write("mlp.txt", "A three-layer MLP: mean loss over the batch and its gradients.", tensors)


def record_training():
    random = np.random.default_rng(3)
    model, variables = small_mlp(random)
    x = normal(random, 16, 3, 4)
    labels = random.integers(0, 5, 16)
    tensors = {"x": x, "labels": labels} | {f"initial/{key}": v.numpy() for key, v in variables.items()}
    loss, _ = losses()["sparse"]
    optimizer = keras.optimizers.SGD(learning_rate=0.1, momentum=0.9)
    values = []
    for _ in range(20):
        with tf.GradientTape() as tape:
            value = loss(labels, model(x, training=True))
        optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
        values.append(float(value))
    tensors |= {"losses": values} | {f"final/{key}": v.numpy() for key, v in variables.items()}
    write("training.txt", "20 steps of SGD (0.1, momentum 0.9) on one batch.", tensors)


def record_optimizers():
    random = np.random.default_rng(4)
    initial = normal(random, 12)
    gradients = normal(random, STEPS, 12) * np.logspace(-3, 1, 12, dtype=np.float32)
    gradients[:, 3] = 0  # a parameter that never learns
    gradients[::2, 4] = 0  # one that learns now and then
    rules = {
        "sgd": lambda: keras.optimizers.SGD(learning_rate=0.01),
        "momentum": lambda: keras.optimizers.SGD(learning_rate=0.01, momentum=0.9),
        "nesterov": lambda: keras.optimizers.SGD(learning_rate=0.01, momentum=0.9, nesterov=True),
        "adam": lambda: keras.optimizers.Adam(learning_rate=0.001),
        "adam_other": lambda: keras.optimizers.Adam(learning_rate=0.01, beta_1=0.8, beta_2=0.99, epsilon=1e-4),
    }
    tensors = {"initial": initial, "gradients": gradients}
    for name, make in rules.items():
        optimizer, variable, trajectory = make(), keras.Variable(initial), []
        for gradient in gradients:
            optimizer.apply([tf.constant(gradient)], [variable])
            trajectory.append(variable.numpy().copy())
        tensors[name] = np.stack(trajectory)
    write("optimizers.txt", f"Parameters after each of {STEPS} steps over given gradients.", tensors)


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(0)
    record_dense()
    record_mlp()
    record_training()
    record_optimizers()


if __name__ == "__main__":
    main()
