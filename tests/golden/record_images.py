#!/usr/bin/env python3
"""Records what Keras computes for layers on images and whole networks of them, for the tests of model: writes layers.txt,
networks.txt and exact.txt beside this script, in the format of record.py.

What rounding is made larger by, such as the loss of a deep network with batch normalizations over few elements, is recorded
in float64 arithmetic (exact.txt): two programs in float32 differ from it about as much as from each other.

Weights and inputs are not recorded: they are functions of name and element (Philox, as src/base/random.c), which the
tests compute too. Of large gradients there is only the length and the length along one direction."""

from record import write  # sets the environment before TensorFlow is loaded

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
M = np.uint64(0xFFFFFFFF)


def philox(stream, count):
    """The first two words of Philox4x32-10 under seed 1, for indices below count, as 64 bits."""
    index = np.arange(count, dtype=np.uint64)
    words = [index & M, index >> np.uint64(32), np.full_like(index, stream & 0xFFFFFFFF), np.full_like(index, stream >> 32)]
    key = [1, 0]
    for _ in range(10):
        a, b = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(b >> np.uint64(32)) ^ words[1] ^ np.uint64(key[0]), b & M,
                 (a >> np.uint64(32)) ^ words[3] ^ np.uint64(key[1]), a & M]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0] << np.uint64(32) | words[1]


def stream(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def uniform(name, shape):
    """In [-1, 1)."""
    bits = philox(stream(name), int(np.prod(shape)))
    return (2 * ((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53) - 1).reshape(shape)


def value(name, shape):
    """What the variable of that name, or the input, holds."""
    draw, kind = uniform(name, shape), name.split("/")[-1]
    if kind in ("gamma", "moving_variance"):
        return (1 + 0.5 * draw).astype(np.float32)
    fan_in = float(np.prod(shape[:-1])) if kind == "kernel" else 12.0
    if kind == "kernel" and len(shape) == 4 and shape[3] == 1:
        fan_in = float(shape[0] * shape[1])  # depthwise
    return (draw * np.sqrt(3 / fan_in)).astype(np.float32)


def name_of(variable):
    return "/".join(variable.path.split("/")[-2:])


def fill(model):
    for variable in model.variables:
        if "seed" not in variable.path:
            variable.assign(value(name_of(variable), tuple(variable.shape)))


def batch(rows, shape, classes):
    return (value("x", (rows, *shape)) * np.float32(2)).astype(np.float32), np.arange(rows) * 7 % classes


LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def step(model, x, labels):
    with tf.GradientTape() as tape:
        loss = LOSS(labels, model(x, training=True))
    return loss, tape.gradient(loss, model.trainable_variables)


# --- layers: input, "front" (1 x 1), the layers under test, flatten, dense ----------------------------------------


def norm(name, **options):
    return layers.BatchNormalization(name=name, **options)


def bottleneck(x):
    y = layers.Conv2D(4, 1, name="a")(x)
    y = layers.ReLU(6.0)(norm("b")(y))
    y = layers.DepthwiseConv2D(3, padding="same", name="c")(y)
    y = layers.ReLU(6.0)(norm("d")(y))
    y = norm("f")(layers.Conv2D(4, 1, name="e")(y))
    return layers.Conv2D(3, 2, name="g")(layers.Add()([y, x]))


def residual(x):
    short = norm("b")(layers.Conv2D(5, 1, name="a")(x))
    y = norm("d")(layers.Conv2D(5, 3, padding="same", name="c")(x))
    y = layers.ReLU()(layers.Add()([y, short]))
    return layers.Conv2D(3, 2, name="e")(y)


def gelu_tanh(x):
    return keras.activations.gelu(x, approximate=True)


def multiply_three(x):
    y = layers.Conv2D(4, 1, name="a")(x)
    return layers.Multiply()([layers.Conv2D(4, 1, name="b")(y), x, y])


def swiglu(x):
    y = layers.RMSNormalization(name="a")(x)
    gate = layers.Dense(5, "silu", use_bias=False, name="b")(y)
    y = layers.Multiply()([layers.Dense(5, use_bias=False, name="c")(y), gate])
    return layers.Add()([layers.Dense(4, use_bias=False, name="d")(y), x])


CASES = {
    "valid": lambda x: layers.Conv2D(5, 3, name="a")(x),
    "same": lambda x: layers.Conv2D(5, 3, 2, "same", name="a")(x),
    "wide": lambda x: layers.Conv2D(3, (2, 3), padding="same", use_bias=False, name="a")(x),
    "dilated": lambda x: layers.Conv2D(3, 3, padding="same", dilation_rate=2, name="a")(x),
    "groups": lambda x: layers.Conv2D(6, 3, padding="same", groups=2, activation="relu", name="a")(x),
    "depthwise": lambda x: layers.DepthwiseConv2D(3, 2, "same", name="a")(x),
    "multiplier": lambda x: layers.DepthwiseConv2D(2, depth_multiplier=3, activation="tanh", name="a")(x),
    "norm": lambda x: norm("a")(x),
    "norm_plain": lambda x: norm("a", center=False, scale=False, momentum=0.9, epsilon=0.01)(x),
    "norm_relu": lambda x: layers.ReLU()(norm("a")(x)),
    "norm_relu6": lambda x: layers.ReLU(6.0)(norm("a")(x)),
    "layer_norm": lambda x: layers.LayerNormalization(name="a")(x),
    "layer_norm_plain": lambda x: layers.LayerNormalization(center=False, scale=False, epsilon=0.01, name="a")(x),
    "layer_norm_scale": lambda x: layers.LayerNormalization(center=False, name="a")(x),
    "layer_norm_center": lambda x: layers.LayerNormalization(scale=False, name="a")(layers.Flatten()(x)),
    "rms_norm": lambda x: layers.RMSNormalization(name="a")(layers.Rescaling(1.0, 2.0)(x)),
    "rms_norm_epsilon": lambda x: layers.RMSNormalization(epsilon=0.1, name="a")(x),
    "max": lambda x: layers.MaxPooling2D(3, 2, "same")(x),
    "max_valid": lambda x: layers.MaxPooling2D(2)(x),
    "average": lambda x: layers.AveragePooling2D(3, 2, "same")(x),
    "global_average": lambda x: layers.GlobalAveragePooling2D()(x),
    "global_max": lambda x: layers.GlobalMaxPooling2D()(x),
    "leaky": lambda x: layers.LeakyReLU()(x),
    "relu6": lambda x: layers.ReLU(6.0)(layers.Rescaling(4.0, 1.0)(x)),
    "sigmoid": lambda x: layers.Activation("sigmoid")(x),
    "gelu": lambda x: layers.Activation("gelu")(layers.Rescaling(3.0)(x)),
    "gelu_tanh": lambda x: layers.Activation(gelu_tanh)(layers.Rescaling(3.0)(x)),
    "silu": lambda x: layers.Activation("silu")(layers.Rescaling(3.0)(x)),
    "softmax": lambda x: layers.Softmax()(x),
    "padding": lambda x: layers.Conv2D(3, 3, name="a")(layers.ZeroPadding2D(((0, 2), (1, 0)))(x)),
    "add": lambda x: layers.Add()([layers.Conv2D(4, 1, name="a")(x), x]),
    "multiply": lambda x: layers.Multiply()([layers.Conv2D(4, 1, name="a")(x), x]),
    "multiply_three": multiply_three,
    "swiglu": swiglu,
    "concatenate": lambda x: layers.Concatenate()([layers.Conv2D(3, 1, name="a")(x), x]),
    "dense": lambda x: layers.Dense(6, activation="sigmoid", name="a")(layers.Flatten()(x)),
    "dense_gelu": lambda x: layers.Dense(6, activation="gelu", name="a")(layers.Flatten()(x)),
    "dense_gelu_tanh": lambda x: layers.Dense(6, activation=gelu_tanh, name="a")(layers.Flatten()(x)),
    "conv_silu": lambda x: layers.Conv2D(5, 3, activation="silu", name="a")(x),
    "depthwise_gelu": lambda x: layers.DepthwiseConv2D(3, 2, "same", activation="gelu", name="a")(x),
    "bottleneck": bottleneck,
    "residual": residual,
}


def record_layers():
    tensors = {}
    for name, build in CASES.items():
        keras.backend.clear_session()
        inputs = keras.Input((6, 5, 3))
        y = build(layers.Conv2D(4, 1, name="front")(inputs))
        model = keras.Model(inputs, layers.Dense(3, name="dense")(layers.Flatten()(y)))
        fill(model)
        x, labels = batch(4, (6, 5, 3), 3)
        tensors[f"{name}/inference"] = LOSS(labels, model(x, training=False))
        loss, gradients = step(model, x, labels)
        tensors[f"{name}/loss"] = loss
        named = {name_of(v): g for v, g in zip(model.trainable_variables, gradients)}
        tensors |= {f"{name}/{key}": g for key, g in named.items() if not key.startswith("dense/kernel")}
        tensors |= {f"{name}/{name_of(v)}": v.numpy() for v in model.non_trainable_variables if "moving" in v.path}
    write("layers.txt", "Layers on images: losses, gradients, and moving statistics after the step.", tensors)


# --- networks -----------------------------------------------------------------------------------------------------


def lenet():
    return keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(6, 5, padding="same", activation="tanh", name="conv2d"),
        layers.AveragePooling2D(2),
        layers.Conv2D(16, 5, activation="tanh", name="conv2d_1"),
        layers.AveragePooling2D(2),
        layers.Flatten(),
        layers.Dense(120, activation="tanh", name="dense"),
        layers.Dense(84, activation="tanh", name="dense_1"),
        layers.Dense(10, name="dense_2"),
    ])


def application(make, size, **options):
    return make(input_shape=(size, size, 3), weights=None, classes=2, classifier_activation=None, **options)


def along(name, tensor):
    """Its length, and its length along a direction that follows from the name."""
    flat = np.asarray(tensor, dtype=np.float64).reshape(-1)
    direction = uniform("direction/" + name, flat.shape)
    return [np.sqrt(np.sum(flat**2)), np.sum(flat * direction) / np.sqrt(np.sum(direction**2))]


def record_gradients(name, model, x, labels):
    fill(model)
    inference = LOSS(labels, model(x, training=False))
    loss, gradients = step(model, x, labels)
    trained = {name_of(v): g for v, g in zip(model.trainable_variables, gradients)}
    moved = {name_of(v): v.numpy() for v in model.non_trainable_variables if "moving" in v.path}
    counts = [sum(int(np.prod(v.shape)) for v in some) for some in
              (model.variables, [v for v in model.non_trainable_variables if "moving" in v.path])]
    keys = sorted(trained) + sorted(moved)
    rows = [along(key, {**trained, **moved}[key]) for key in keys]
    return {f"{name}/loss": loss, f"{name}/inference": inference, f"{name}/counts": counts, f"{name}/gradients": rows}


def record_networks():
    tensors = record_gradients("mobilenet_v2", application(keras.applications.MobileNetV2, 33, alpha=0.35),
                               *batch(4, (33, 33, 3), 2))
    full = application(keras.applications.MobileNetV2, 224)
    tensors["mobilenet_v2/full"] = [full.count_params(), sum(int(np.prod(v.shape)) for v in full.non_trainable_variables)]
    tensors |= record_gradients("resnet50", application(keras.applications.ResNet50, 64), *batch(8, (64, 64, 3), 2))
    model, (x, labels) = lenet(), batch(16, (28, 28, 1), 10)
    fill(model)
    optimizer, losses = keras.optimizers.Adam(learning_rate=0.001), []
    for _ in range(20):
        loss, gradients = step(model, x, labels)
        optimizer.apply(gradients, model.trainable_variables)
        losses.append(float(loss))
    tensors["lenet/losses"] = losses
    tensors["lenet/final"] = [along(name_of(v), v.numpy()) for v in sorted(model.trainable_variables, key=name_of)]
    write("networks.txt", "Networks: losses; lengths of gradients (by name), then of moving statistics.", tensors)


# --- in float64 ---------------------------------------------------------------------------------------------------


def losses_of(model, optimizer, x, labels):
    fill(model)
    losses = []
    for _ in range(20):
        loss, gradients = step(model, x, labels)
        optimizer.apply(gradients, model.trainable_variables)
        losses.append(float(loss))
    return losses


def record_exact():
    keras.backend.set_floatx("float64")
    tensors = {}
    for name, model, (x, labels) in (
            ("mobilenet_v2", application(keras.applications.MobileNetV2, 33, alpha=0.35), batch(4, (33, 33, 3), 2)),
            ("resnet50", application(keras.applications.ResNet50, 64), batch(8, (64, 64, 3), 2))):
        fill(model)
        tensors[f"{name}/inference"] = LOSS(labels, model(x.astype(np.float64), training=False))
        tensors[f"{name}/loss"] = LOSS(labels, model(x.astype(np.float64), training=True))
    model, (x, labels) = application(keras.applications.MobileNetV2, 64, alpha=0.35), batch(8, (64, 64, 3), 2)
    for name, optimizer in (("sgd", keras.optimizers.SGD(learning_rate=1e-5)),
                            ("adam", keras.optimizers.Adam(learning_rate=1e-5))):
        tensors[f"mobilenet_v2/{name}"] = losses_of(model, optimizer, x.astype(np.float64), labels)
    write("exact.txt", "Networks in float64: losses, and those of 20 steps.", tensors)


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    record_layers()
    record_networks()
    record_exact()
