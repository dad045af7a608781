"""The MLP 784-128-64-10 under TensorFlow's ParameterServerStrategy: examples/s, as one JSON line of the chief.

Every task of TF_CONFIG runs it. The chief coordinates, workers take steps of 64 examples by themselves, servers keep the
variables. A custom loop with plain variables, since Keras 3's fit refuses this strategy. --calls names how many steps
one scheduled call takes. TensorFlow's servers and workers never end; here they end when the file --stop is there.
"""
import argparse
import json
import os
import sys
import threading
import time

import tensorflow as tf

BATCH, RATE, BATCHES = 64, 0.01, 15


def end_with(path):
    while not os.path.exists(path):
        time.sleep(0.05)
    os._exit(0)


def make_dataset():
    features = tf.random.stateless_uniform((BATCHES, BATCH, 784), (7, 1))
    labels = tf.random.stateless_uniform((BATCHES, BATCH), (7, 2), 0, 10, tf.int32)
    return tf.data.Dataset.from_tensor_slices((features, labels)).cache().repeat()


def make_variables():
    initializer = tf.keras.initializers.GlorotUniform(seed=1)
    shapes = [(784, 128), (128,), (128, 64), (64,), (64, 10), (10,)]
    return [tf.Variable(initializer(shape) if len(shape) == 2 else tf.zeros(shape)) for shape in shapes]


def make_call(strategy, variables, steps):
    def step(features, labels):
        w1, b1, w2, b2, w3, b3 = variables
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.matmul(features, w1) + b1)
            hidden = tf.nn.relu(tf.matmul(hidden, w2) + b2)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.matmul(hidden, w3) + b3)
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)

    @tf.function
    def call(iterator):
        for _ in tf.range(steps):
            strategy.run(step, args=next(iterator))

    return call


def coordinate(options, resolver):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        variables = make_variables()
    iterator = iter(coordinator.create_per_worker_dataset(make_dataset))
    call = make_call(strategy, variables, options.calls)
    for _ in range(8):  # tracing, and the first transfers
        coordinator.schedule(call, args=(iterator,))
    coordinator.join()
    calls = max(1, options.steps // options.calls)
    begun = time.monotonic()
    for _ in range(calls):
        coordinator.schedule(call, args=(iterator,))
    coordinator.join()
    seconds = time.monotonic() - begun
    print(json.dumps({"examples_per_second": calls * options.calls * BATCH / seconds}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--stop", required=True)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        try:
            coordinate(options, resolver)
        finally:
            open(options.stop, "w", encoding="ascii").close()
        os._exit(0)  # its threads wait for servers
    threading.Thread(target=end_with, args=(options.stop,), daemon=True).start()
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc")
    server.join()


if __name__ == "__main__":
    sys.exit(main())
