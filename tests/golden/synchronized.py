#!/usr/bin/env python3
"""Records what Keras' synchronized batch normalization does on two replicas under MirroredStrategy, and what TensorFlow's
fused kernel makes of the moving variance: writes synchronized.txt beside this script, in record.py's format.
"""

import keras
import numpy as np
import tensorflow as tf
from record import normal, write

REPLICAS, BATCH, STEPS = 2, 8, 10


def make_model():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((6, 5, 3)),
        layers.Conv2D(4, 3, name="conv"),
        layers.BatchNormalization(synchronized=True, momentum=0.9, name="norm"),
        layers.ReLU(),
        layers.Flatten(),
        layers.Dense(5, name="dense"),
        layers.BatchNormalization(synchronized=True, momentum=0.5, name="norm_1"),
        layers.ReLU(),
        layers.Dense(3, name="dense_1"),
    ])


def short_names(model):
    return {"/".join(v.path.split("/")[-2:]): v for v in model.variables}


def train(random, tensors):
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(REPLICAS)])
    x = normal(random, BATCH, 6, 5, 3) + np.linspace(0, 3, BATCH, dtype=np.float32).reshape(-1, 1, 1, 1)
    labels = random.integers(0, 3, BATCH)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    with strategy.scope():
        model = make_model()
        model.set_weights([normal(random, *v.shape, scale=0.4) if "moving" not in v.path else v.numpy() for v in model.weights])
        optimizer = tf.Variable(0.1)  # the learning rate: plain gradient descent

    def step(features, targets):
        with tf.GradientTape() as tape:
            value = loss(targets, model(features, training=True)) / BATCH
        gradients = tape.gradient(value, [v.value for v in model.trainable_variables])
        gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        for variable, gradient in zip(model.trainable_variables, gradients):
            variable.value.assign_sub(optimizer * gradient)
        return value

    tensors |= {"x": x, "labels": labels} | {f"initial/{key}": v.numpy() for key, v in short_names(model).items()}
    share = BATCH // REPLICAS
    parts = [tf.constant(part) for part in np.split(x, REPLICAS)], [tf.constant(part) for part in np.split(labels, REPLICAS)]
    values = []
    run = tf.function(lambda a, b: strategy.reduce("sum", strategy.run(step, args=(a, b)), axis=None))
    give = lambda of: strategy.experimental_distribute_values_from_function(lambda c: of[c.replica_id_in_sync_group])
    for _ in range(STEPS):
        values.append(float(run(give(parts[0]), give(parts[1]))))
    assert share * REPLICAS == BATCH
    tensors |= {"losses": values} | {f"final/{key}": v.numpy() for key, v in short_names(model).items()}


def fused(random, tensors):
    x = normal(random, 2, 3, 2, 4, scale=2.0) + 1
    mean, variance = np.linspace(0, 1, 4, dtype=np.float32), np.linspace(1, 2, 4, dtype=np.float32)
    _, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x, scale=np.ones(4, np.float32), offset=np.zeros(4, np.float32), mean=mean, variance=variance,
        epsilon=1e-3, exponential_avg_factor=0.25, is_training=True)
    tensors |= {"fused/x": x, "fused/mean": mean, "fused/variance": variance, "fused/new_mean": new_mean,
                "fused/new_variance": new_variance}


def main():
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                               [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    random, tensors = np.random.default_rng(6), {}
    train(random, tensors)
    fused(random, tensors)
    write("synchronized.txt", f"{STEPS} steps of gradient descent with synchronized batch normalization.", tensors)


if __name__ == "__main__":
    main()
