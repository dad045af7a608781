"""The MLP 784-128-64-10 in TensorFlow: steps/s of the fastest variant, as one JSON line.

--setup one: the default strategy; workers: MultiWorkerMirroredStrategy, one process a task, each started by the caller
with its TF_CONFIG, task 0 prints; devices: MirroredStrategy over two logical CPU devices. One thread a replica. Inputs
lie in memory as float32, each step takes the next batch of them; warm-up and tracing are not timed.

The custom loop is written with plain variables and assign_sub: Keras 3's fit does not work under
MultiWorkerMirroredStrategy. A call of the tf.function does one pass over all batches.
"""
import argparse
import json
import os
import sys
import time

import tensorflow as tf

BATCH = 64
RATE = 0.01


def configure(setup):
    replicas = 2 if setup == "devices" else 1
    tf.config.threading.set_intra_op_parallelism_threads(replicas)
    tf.config.threading.set_inter_op_parallelism_threads(replicas)
    if setup == "devices":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def make_strategy(setup):
    if setup == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if setup == "devices":
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return tf.distribute.get_strategy()


def make_variables(strategy):
    initializer = tf.keras.initializers.GlorotUniform(seed=1)
    with strategy.scope():
        shapes = [(784, 128), (128,), (128, 64), (64,), (64, 10), (10,)]
        return [tf.Variable(initializer(shape) if len(shape) == 2 else tf.zeros(shape)) for shape in shapes]


def make_data(strategy, count):
    """Each replica's own batches: features [count, 64, 784] and labels [count, 64], one copy on each device."""

    def values(context):
        seed = [7, context.replica_id_in_sync_group]
        return (tf.random.stateless_uniform((count, BATCH, 784), seed),
                tf.random.stateless_uniform((count, BATCH), seed, 0, 10, tf.int32))

    if strategy.num_replicas_in_sync == 1:
        return values(tf.distribute.get_replica_context())
    features = strategy.experimental_distribute_values_from_function(lambda context: values(context)[0])
    labels = strategy.experimental_distribute_values_from_function(lambda context: values(context)[1])
    return features, labels


def gradients_of(weights, features, labels):
    w1, b1, w2, b2, w3, b3 = weights
    with tf.GradientTape() as tape:
        tape.watch(weights)
        hidden = tf.nn.relu(tf.matmul(features, w1) + b1)
        hidden = tf.nn.relu(tf.matmul(hidden, w2) + b2)
        logits = tf.matmul(hidden, w3) + b3
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return tape.gradient(loss, weights)


def reduce_gradients(gradients, flat):
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return gradients
    if not flat:
        return context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
    packed = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], 0)
    summed = context.all_reduce(tf.distribute.ReduceOp.MEAN, packed)
    parts = tf.split(summed, [gradient.shape.num_elements() for gradient in gradients])
    return [tf.reshape(part, gradient.shape) for part, gradient in zip(parts, gradients)]


def make_update(variables, rule):
    """variables from gradients. Adam: one replica only."""
    if rule == "sgd":
        return lambda gradients: [v.assign_sub(RATE * g) for v, g in zip(variables, gradients)]
    first, second = ([tf.Variable(tf.zeros_like(v)) for v in variables] for _ in range(2))
    count = tf.Variable(0.0)

    def update(gradients):
        count.assign_add(1.0)
        rate = 0.1 * RATE * tf.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        for variable, gradient, m, v in zip(variables, gradients, first, second):
            m.assign_add(0.1 * (gradient - m))
            v.assign_add(0.001 * (gradient * gradient - v))
            variable.assign_sub(rate * m / (tf.sqrt(v) + 1e-7))

    return update


def make_loop(strategy, variables, data, xla, flat, rule):
    """One call: a pass over all batches. XLA compiles what one replica computes; the all-reduce stays outside."""
    compute = tf.function(gradients_of, jit_compile=True) if xla else gradients_of
    update = make_update(variables, rule)

    def replica_step(features, labels, index):
        gradients = compute([tf.convert_to_tensor(v) for v in variables], features[index], labels[index])
        update(reduce_gradients(gradients, flat))

    @tf.function
    def run(count):
        for index in tf.range(count):
            strategy.run(replica_step, args=(*data, index))

    return run


def make_xla_loop(variables, data, rule):
    """One replica only: the whole pass, updates included, is one XLA program."""
    update = make_update(variables, rule)

    @tf.function(jit_compile=True)
    def run(count):
        for index in tf.range(count):
            gradients = gradients_of([tf.convert_to_tensor(v) for v in variables], data[0][index], data[1][index])
            update(gradients)

    return run


def timed(call, steps_per_call, steps):
    calls = max(1, round(steps / steps_per_call))
    started = time.perf_counter()
    for _ in range(calls):
        call()
    return calls * steps_per_call / (time.perf_counter() - started)


def measure_loop(strategy, data, plan, make):
    variables = make_variables(strategy)
    run, size = make(variables), tf.constant(plan.batches)
    timed(lambda: run(size), 1, 2)  # tracing and warm-up
    rate = max(timed(lambda: run(size), plan.batches, plan.steps) for _ in range(plan.repeats))
    if not all(bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(v)))) for v in variables):
        raise RuntimeError("the weights are not finite")
    return rate


def measure_fit(strategy, plan, xla, chunk):
    """Keras' fit over a tf.data pipeline of ready-made batches, chunk of them a call; the first epoch warms up."""
    count, replicas = plan.batches, strategy.num_replicas_in_sync
    features = tf.random.stateless_uniform((count * BATCH * replicas, 784), [7, 0])
    labels = tf.random.stateless_uniform((count * BATCH * replicas,), [7, 1], 0, 10, tf.int32)
    slices = tf.reshape(features, (count, -1, 784)), tf.reshape(labels, (count, -1))
    dataset = tf.data.Dataset.from_tensor_slices(slices).repeat().prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((784,)), tf.keras.layers.Dense(128, "relu"),
                                     tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])
        optimizer = tf.keras.optimizers.SGD(RATE) if plan.optimizer == "sgd" else tf.keras.optimizers.Adam(0.1 * RATE)
        model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      steps_per_execution=chunk, jit_compile=xla)
    epoch = max(1, round(plan.steps / count)) * count
    ends = []
    clock = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(time.perf_counter()))
    model.fit(dataset.with_options(options), epochs=1 + plan.repeats, steps_per_epoch=epoch, verbose=0,
              callbacks=[clock])
    return epoch / min(end - start for start, end in zip(ends, ends[1:]))


def variants(setup, strategy, plan):
    """Name -> a function that measures it."""
    data = make_data(strategy, plan.batches)

    def loop(xla, flat):
        return lambda: measure_loop(strategy, data, plan, lambda v: make_loop(strategy, v, data, xla, flat, plan.optimizer))

    def fit(xla, chunk):
        return lambda: measure_fit(strategy, plan, xla, chunk)

    result = {"custom loop": loop(False, False), "custom loop, XLA": loop(True, False)}
    if setup == "one":
        result["custom loop, all XLA"] = lambda: measure_loop(strategy, data, plan,
                                                              lambda v: make_xla_loop(v, data, plan.optimizer))
    else:
        result["custom loop, flat all-reduce"] = loop(False, True)
        result["custom loop, XLA, flat all-reduce"] = loop(True, True)
    if setup != "workers":
        result["Keras fit"] = fit(False, 1)
        result[f"Keras fit, {plan.batches} steps a call"] = fit(False, plan.batches)
        result[f"Keras fit, {plan.batches} steps a call, XLA"] = fit(True, plan.batches)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setup", choices=["one", "workers", "devices"], default="one")
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd", help="adam: --setup one only")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=128, help="different batches a replica")
    parser.add_argument("--variant", help="only this one (default: all, the fastest is reported)")
    parser.add_argument("--repeats", type=int, default=1, help="measure so many times, keep the best")
    plan = parser.parse_args()
    configure(plan.setup)
    strategy = make_strategy(plan.setup)
    tried, failed = {}, {}
    for name, measure in variants(plan.setup, strategy, plan).items():
        if plan.variant and name != plan.variant:
            continue
        try:
            tried[name] = measure()
        except Exception as error:  # a variant that this build cannot run; every task meets the same refusal
            failed[name] = " ".join(f"{type(error).__name__}: {error}".split())[:160]
    if not tried:
        sys.exit(f"tensorflow_mlp: no variant ran: {failed}")
    best = max(tried, key=tried.get)
    if json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {}).get("index", 0) == 0:
        print(json.dumps({"steps_per_second": tried[best], "variant": best, "tried": tried, "failed": failed}))


if __name__ == "__main__":
    main()
