"""One rank: Horovod's names for TensorFlow and Keras, eager, in tf.function and in TensorFlow 1's sessions, against what one
process computes of all ranks'."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
import tensorflow as tf

import lockstep.keras
import lockstep.tensorflow as hvd

tf.get_logger().setLevel("ERROR")
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
RANKS = np.arange(SIZE) + 1.0


def same(found, expected, what):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6, err_msg=what)


def collectives():
    for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64, tf.uint8, tf.int8):
        mine = tf.cast(tf.fill([3, 2], RANK + 1), dtype)
        for call in (lambda f: f(), lambda f: tf.function(f)()):
            same(tf.cast(call(lambda: hvd.allreduce(mine, op=hvd.Sum)), tf.float64), np.full((3, 2), RANKS.sum()), f"sum of {dtype}")
            same(tf.cast(call(lambda: hvd.broadcast(mine, SIZE - 1)), tf.float64), np.full((3, 2), SIZE), f"broadcast of {dtype}")
            rows = call(lambda: hvd.allgather(mine[:RANK + 1]))
            same(tf.cast(rows[:, 0], tf.float64), np.repeat(RANKS, np.arange(SIZE) + 1)[:0] if SIZE > 3 else
                 np.repeat(RANKS, np.minimum(np.arange(SIZE) + 1, 3)), f"all-gather of {dtype}")
    wide = tf.fill([2 * SIZE + 1, 2], float(RANK))
    same(hvd.reducescatter(wide, op=hvd.Sum), np.full((3 if RANK == 0 else 2, 2), (RANKS - 1).sum()), "reduce-scatter")
    pair = tf.function(lambda: hvd.grouped_allreduce([tf.constant(RANKS[RANK]), tf.fill([4], RANK)], op=hvd.Max))()
    same(pair[0], SIZE, "a group")
    same(pair[1], np.full(4, SIZE - 1), "a group's integers")
    same(hvd.allreduce(tf.constant([2.0]), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), [3.0 * SIZE], "factors")
    slices = tf.IndexedSlices(tf.fill([2, 3], float(RANK)), tf.constant([RANK, SIZE]), tf.constant([SIZE + 1, 3]))
    same(tf.convert_to_tensor(hvd.allreduce(slices, op=hvd.Sum))[SIZE], np.full(3, (RANKS - 1).sum()), "slices")
    assert hvd.allgather_object(RANK) == list(range(SIZE)) and hvd.broadcast_object([RANK], 0) == [0]
    rows = tf.function(lambda: hvd.alltoall(tf.fill([SIZE, 2], RANK), splits=[1] * SIZE))()
    same(rows[0][:, 1], np.arange(SIZE), "all-to-all")
    same(rows[1], np.ones(SIZE), "its splits")
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = hvd.allreduce(x) * (RANK + 1)
    same(tape.gradient(y, x), np.full(2, RANKS.mean()), "the gradient of an all-reduce")


def tapes():
    """Gradients of the tape are those of all ranks' batches."""
    weights, unused = tf.Variable([[1.0, -1.0], [0.5, 2.0]]), tf.Variable(3.0)
    batches = np.random.default_rng(1).normal(size=(SIZE, 4, 2)).astype("float32")

    def loss(x):
        return tf.reduce_mean(tf.square(tf.tanh(x @ weights)))
    with tf.GradientTape() as tape:
        wanted = loss(batches.reshape(-1, 2))
    wanted = tape.gradient(wanted, weights)

    def step(x, **options):
        with tf.GradientTape() as tape:
            value = loss(x)
        return hvd.DistributedGradientTape(tape, **options).gradient(value, [weights, unused])
    for options in ({}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.fp16}):
        for found in (step(batches[RANK], **options), tf.function(lambda: step(batches[RANK], **options)[:1])()):
            np.testing.assert_allclose(found[0], wanted, rtol=1e-5)
    assert step(batches[RANK])[1] is None
    if SIZE == 2:
        with tf.GradientTape() as tape:
            value = loss(batches[RANK])
        a, b = hvd.allgather(tf.reshape(tape.gradient(value, weights), [1, -1])).numpy().astype("float64")
        wanted = (1 - a @ b / (a @ a) / 2) * a + (1 - a @ b / (b @ b) / 2) * b
        np.testing.assert_allclose(step(batches[RANK], op=hvd.Adasum)[0].numpy().ravel(), wanted, rtol=1e-5)
    table = tf.Variable(tf.ones([5, 2]))
    for as_dense in (False, True):
        with hvd.DistributedGradientTape(tf.GradientTape(), sparse_as_dense=as_dense) as tape:
            value = tf.reduce_sum(tf.gather(table, [RANK, 4]))
        expected = np.zeros((5, 2))
        expected[:SIZE], expected[4] = 1 / SIZE, expected[4] + 1
        if SIZE == 5:
            expected[4] += 1 / SIZE
        same(tf.convert_to_tensor(tape.gradient(value, table)), expected, "a sparse gradient")


def sessions():
    """TensorFlow 1: an optimizer, the hook of the broadcast, a monitored session."""
    with tf.Graph().as_default():
        weight = tf.compat.v1.get_variable("weight", initializer=float(RANK + 5))
        loss = weight * (RANK + 1)
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.5))
        train = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_or_create_global_step())
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
            same(session.run(weight), 5.0, "the broadcast variable")
            session.run(train)
            same(session.run(weight), 5.0 - 0.5 * RANKS.mean(), "a step")


def model_of(distributed):
    keras.utils.set_random_seed(7 if RANK == 0 or not distributed else 8)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    if distributed:
        optimizer = lockstep.keras.DistributedOptimizer(optimizer)
        assert isinstance(optimizer, keras.optimizers.SGD)
    model.compile(optimizer=optimizer, loss="mse", jit_compile=False)
    return model


def fits():
    """fit on shards equals fit on whole batches; metrics are averaged; the learning rate warms up by Horovod's formula."""
    drawn = np.random.default_rng(5)
    x, y = drawn.normal(size=(8 * SIZE, 3)).astype("float32"), drawn.normal(size=(8 * SIZE, 1)).astype("float32")
    wanted, model = model_of(False), model_of(True)
    hvd.broadcast_variables(model.variables, 0)
    for begin in range(0, 8 * SIZE, 4 * SIZE):
        wanted.train_on_batch(x[begin:begin + 4 * SIZE], y[begin:begin + 4 * SIZE])
        model.train_on_batch(x[begin + RANK:begin + 4 * SIZE:SIZE], y[begin + RANK:begin + 4 * SIZE:SIZE])
    for a, b in zip(model.get_weights(), wanted.get_weights()):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    rates = []
    callbacks = [lockstep.keras.callbacks.BroadcastGlobalVariablesCallback(0), lockstep.keras.callbacks.MetricAverageCallback(),
                 lockstep.keras.callbacks.LearningRateWarmupCallback(0.2, warmup_epochs=2),
                 keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: rates.append(float(model.optimizer.learning_rate)))]
    history = model.fit(x[RANK::SIZE], y[RANK::SIZE], batch_size=4, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
    epochs = [(step + 1) / 2 for step in range(4)]
    same(rates[:4], [0.2 / SIZE * (epoch * (SIZE - 1) / 2 + 1) for epoch in epochs], "the warm-up")
    everybody = hvd.allgather_object((history.history["loss"], [weight.tolist() for weight in model.get_weights()]))
    assert all(other == everybody[0] for other in everybody), "ranks differ after fit"


for part in (collectives, tapes, sessions, fits):
    part()
hvd.barrier()
print("whole")
