"""One rank: process sets, groups of calls, gradients of each collective, local variables, several passes a step and
synchronized batch normalization, against what one process computes of all ranks'. Keras is that of TF_USE_LEGACY_KERAS."""
import os
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

import lockstep.tensorflow as hvd
import lockstep.tensorflow.keras as hvd_keras
from lockstep import LockstepError

keras = tf.keras
tf.get_logger().setLevel("ERROR")
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
RANKS = np.arange(SIZE) + 1.0


def same(found, expected, what, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=1e-7, err_msg=what)


def sets():
    """Calls in a set of the odd ranks, with the last one first; roots are ranks of all."""
    ranks = list(range(SIZE))[::-2]
    chosen = hvd.add_process_set(ranks)
    same(tf.function(lambda: hvd.size_op(chosen.process_set_id))(), len(ranks), "size_op")
    same(hvd.process_set_included_op(chosen.process_set_id), int(RANK in ranks), "process_set_included_op")
    same(tf.function(lambda: [hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op()])(),
         [RANK, SIZE, RANK, SIZE], "numbers in a graph")
    if chosen.included():
        mine, of_set = tf.fill([2, 2], RANK + 1.0), [rank + 1.0 for rank in ranks]
        for call in (lambda f: f(), lambda f: tf.function(f)()):
            same(call(lambda: hvd.allreduce(mine, op=hvd.Sum, process_set=chosen))[0, 0], sum(of_set), "sum of a set")
            same(call(lambda: hvd.allgather(mine[:1, :1], process_set=chosen))[:, 0], of_set, "all-gather of a set")
            same(call(lambda: hvd.broadcast(mine, ranks[-1], process_set=chosen))[0, 0], ranks[-1] + 1, "broadcast of a set")
            same(call(lambda: hvd.alltoall(tf.fill([len(ranks)], RANK), process_set=chosen)), ranks, "all-to-all of a set")
            part = call(lambda: hvd.reducescatter(tf.fill([len(ranks), 3], RANK + 1.0), op=hvd.Average, process_set=chosen))
            same(part, np.full((1, 3), np.mean(of_set)), "reduce-scatter of a set")
        variable = tf.Variable(float(RANK))
        hvd.broadcast_variables([variable], ranks[-1], process_set=chosen)
        same(variable, ranks[-1], "variables of a set")
        assert hvd.allgather_object(RANK, process_set=chosen) == ranks
        assert hvd.broadcast_object_fn(ranks[0], process_set=chosen)(RANK) == ranks[0]
        with tf.GradientTape() as tape:
            value = variable * (RANK + 1.0)
        same(hvd.DistributedGradientTape(tape, process_set=chosen).gradient(value, variable), np.mean(of_set), "tape of a set")
        hvd.barrier(process_set=chosen)
    else:
        try:
            hvd.allreduce(tf.constant(1.0), process_set=chosen)
            raise AssertionError("a call in a set without this rank")
        except LockstepError as error:
            assert "is not in the process set" in str(error), error
    hvd.remove_process_set(chosen)


def groups():
    parts = hvd.grouped_allgather([tf.fill([RANK + 1, 2], RANK), tf.fill([1], RANK + 0.5)])
    same(parts[0][:, 1], np.repeat(np.arange(SIZE), np.arange(SIZE) + 1), "a group's all-gather")
    same(parts[1], np.arange(SIZE) + 0.5, "a group's all-gather")
    parts = tf.function(lambda: hvd.grouped_reducescatter([tf.fill([SIZE], RANK + 1.0), tf.fill([2 * SIZE, 2], RANK + 1)],
                                                          op=hvd.Sum))()
    same(parts[0], [RANKS.sum()], "a group's reduce-scatter")
    same(parts[1], np.full((2, 2), RANKS.sum()), "a group's reduce-scatter")
    scaled = hvd.reducescatter(tf.fill([SIZE], 3.0), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    same(scaled, [6.0 * SIZE], "factors of a reduce-scatter")
    variables = [tf.Variable(float(RANK + i)) for i in range(2)]
    hvd.broadcast_(variables, SIZE - 1)
    same(variables, [SIZE - 1.0, SIZE], "broadcast_")


def gradients():
    """Of each collective, as Horovod defines them."""
    def gradient(function, shape, weight):
        x = tf.Variable(tf.fill(shape, 1.0))
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(function(x) * weight)
        return tape.gradient(y, x)
    weights = np.arange(2.0 * SIZE).astype("float32") * (RANK + 1)
    mean = np.arange(2.0 * SIZE) * RANKS.mean()
    same(gradient(hvd.allgather, [2], weights), mean[2 * RANK:2 * RANK + 2], "the gradient of an all-gather")
    same(gradient(lambda x: hvd.broadcast(x, SIZE - 1), [3], RANK + 1.0),
         np.full(3, RANKS.mean() if RANK == SIZE - 1 else 0), "the gradient of a broadcast")
    for op, factor in ((hvd.Sum, SIZE), (hvd.Average, 1)):
        same(gradient(lambda x: hvd.reducescatter(x, op=op), [SIZE, 2], RANK + 1.0), factor * np.stack([RANKS, RANKS], 1),
             "the gradient of a reduce-scatter")
    same(gradient(lambda x: hvd.alltoall(x, splits=[1] * SIZE)[0], [SIZE], RANK + 1.0), RANKS, "the gradient of an all-to-all")


def layers():
    """The gradients of local layers are this rank's, divided by the number of ranks, or whole."""
    keras.utils.set_random_seed(3)
    first, second = keras.layers.Dense(3, use_bias=False), keras.layers.Dense(1, use_bias=False)
    model = keras.Sequential([keras.Input((2,)), first, second])
    x = np.random.default_rng(2).normal(size=(SIZE, 5, 2)).astype("float32")

    def of(rank):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(tf.square(model(x[rank])))
        return tape, value
    wanted = [tape.gradient(value, model.trainable_variables) for tape, value in map(of, range(SIZE))]
    for scale in (True, False):
        tape, value = of(RANK)
        tape = hvd.PartialDistributedGradientTape(tape, local_layers=second, scale_local_gradients=scale)
        found = tape.gradient(value, model.trainable_variables)
        same(found[0], np.mean([one[0] for one in wanted], 0), "a gradient of all", 1e-5)
        same(found[1], wanted[RANK][1] / (SIZE if scale else 1), "a local gradient", 1e-5)
    optimizer = hvd_keras.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=[second])
    before = model.get_weights()
    optimizer.apply_gradients(zip(wanted[RANK], model.trainable_variables))
    same(before[0] - model.get_weights()[0], np.mean([one[0] for one in wanted], 0), "a step of all", 1e-4)
    same(before[1] - model.get_weights()[1], wanted[RANK][1] / SIZE, "a local step", 1e-4)


def passes():
    """Two passes a step: the sum, or the mean, of both passes' gradients over all ranks."""
    for average in (False, True):
        weight = tf.Variable([1.0, 2.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.5), backward_passes_per_step=2,
                                             average_aggregated_gradients=average)

        @tf.function
        def step(gradient):
            optimizer.apply_gradients([(gradient, weight)])
        expected = np.array([1.0, 2.0])
        for turn in range(4):
            step(tf.constant([RANK + 1.0, turn]))
            if turn % 2:
                expected = expected - 0.5 * np.array([2 * RANKS.mean(), 2 * turn - 1]) / (2 if average else 1)
            same(weight, expected, f"pass {turn}")


def files():
    """A model that is saved with a DistributedOptimizer is read by Keras alone, and by load_model."""
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile(hvd_keras.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mean_squared_error", jit_compile=False)
    model.fit(np.ones((8, 4)), np.ones((8, 3)), verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        for end in ("keras", "h5"):
            path = os.path.join(folder, "model." + end)
            model.save(path)
            for load in (keras.models.load_model, hvd_keras.load_model):
                found = load(path)
                assert type(found.optimizer).__name__ == "Adam" and int(found.optimizer.iterations.numpy()) == 1, (end, load)
                same(found.get_weights()[0], model.get_weights()[0], "weights of " + path)


def norms():
    """A layer on shards of unequal size gives what one layer gives on all examples, and the gradients of a tape too."""
    cuts = np.cumsum([0] + [2 + rank for rank in range(SIZE)])
    whole = np.random.default_rng(4).normal(1.0, 3.0, (cuts[-1], 4, 3)).astype("float32")
    mine = slice(cuts[RANK], cuts[RANK + 1])
    ours, theirs = hvd.SyncBatchNormalization(), keras.layers.BatchNormalization()
    ours.build(whole.shape), theirs.build(whole.shape)
    weights = np.random.default_rng(5).normal(size=whole.shape).astype("float32")

    def outcome(layer, x, w):
        x = tf.Variable(x)
        with tf.GradientTape() as tape:
            y = layer(x, training=True)
            value = tf.reduce_sum(y * w)
        return y, tape.gradient(value, x)
    (y, dx), (wanted, wanted_dx) = outcome(ours, whole[mine], weights[mine]), outcome(theirs, whole, weights)
    same(y, wanted[mine], "batch normalization", 1e-3)
    np.testing.assert_allclose(dx, wanted_dx[mine], rtol=1e-3, atol=1e-4)
    same(ours.moving_variance, theirs.moving_variance, "the moving variance", 1e-4)
    same(ours(whole), theirs(whole), "inference", 1e-3)


for part in (sets, groups, gradients, layers, passes, files, norms):
    part()
    hvd.barrier()
print("whole")
