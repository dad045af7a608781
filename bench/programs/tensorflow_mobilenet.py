"""Keras' MobileNetV2 at 224 x 224 in TensorFlow: images/s and peak memory, as one JSON line.

usage: tensorflow_mobilenet.py BATCH THREADS STEPS plain|xla"""
import json
import resource
import sys
import time

import tensorflow as tf


def main():
    batch, threads, steps = map(int, sys.argv[1:4])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = tf.keras.applications.MobileNetV2((224, 224, 3), weights=None, classes=2, classifier_activation=None)
    optimizer = tf.keras.optimizers.Adam(0.001)
    optimizer.build(model.trainable_variables)
    measure = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    images, labels = tf.random.uniform((batch, 224, 224, 3), -1, 1), tf.range(batch) % 2

    @tf.function(jit_compile=sys.argv[4] == "xla")
    def step():
        with tf.GradientTape() as tape:
            loss = measure(labels, model(images, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    step()
    started = time.perf_counter()
    for _ in range(steps):
        loss = step()
    loss = float(loss)
    seconds = time.perf_counter() - started
    print(json.dumps({"images_per_second": batch * steps / seconds, "loss": loss,
                      "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


main()
