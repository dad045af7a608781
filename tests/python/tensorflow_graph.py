"""One rank: calls of TensorFlow 1's graphs, whose ops a session runs in another order on each rank. Each call gets its own values."""
import threading

import numpy as np
import tensorflow as tf

import lockstep
import lockstep.tensorflow as hvd

v1 = tf.compat.v1
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
begun = threading.Event()


def notes(cls, name):
    function = getattr(cls, name)

    def called(self, *arguments, **options):
        begun.set()
        return function(self, *arguments, **options)
    setattr(cls, name, called)


notes(lockstep._named.Named, "begin")
notes(lockstep.Communicator, "all_gather_rows")


def behind(x):
    """x, when the session has begun a call that does not wait for it."""
    def wait(value):
        assert begun.wait(60)
        return value
    found = tf.numpy_function(wait, [x], x.dtype, stateful=True)
    found.set_shape(x.shape)
    return found


@tf.custom_gradient
def late(x):
    """Its gradient is begun behind another one."""
    return tf.identity(x), behind


def session(threads=4):
    return v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=threads, use_per_session_threads=True))


def sparse_gradients():
    """Of two tables of one width: rank 0 begins the first one's gradient first, and the others the second one's."""
    with tf.Graph().as_default():
        tables = [v1.get_variable(name, (10, 4), initializer=v1.zeros_initializer()) for name in "ab"]
        rows = [tf.nn.embedding_lookup(table, [1, RANK + 2]) for table in tables]
        last = 1 if RANK == 0 else 0
        rows[last] = late(rows[last])
        loss = tf.reduce_sum(rows[0]) + 100 * tf.reduce_sum(rows[1])
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0))
        step = optimizer.minimize(loss)
        with session() as run:
            run.run(v1.global_variables_initializer())
            run.run(hvd.broadcast_global_variables(0))
            for _ in range(3):
                begun.clear()
                run.run(step)
            a, b = run.run(tables)
    for found, each in ((a, 3), (b, 300)):
        expected = np.zeros((10, 4))
        expected[1] = -each
        expected[2:2 + SIZE] = -each / SIZE
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def calls():
    """Unnamed calls of one type and shape, with fewer threads than calls: the ops stand in another order on each rank."""
    with tf.Graph().as_default():
        inputs = [tf.constant([10.0 * i + RANK], name=f"input{i}") for i in range(6)]
        order = range(6) if RANK == 0 else reversed(range(6))
        found = dict(sorted((i, hvd.allreduce(inputs[i], op=hvd.Sum)) for i in order))
        branch = tf.cond(found[0][0] > -1, lambda: hvd.allreduce(inputs[1], op=hvd.Max), lambda: inputs[2])
        turns = tf.while_loop(lambda turn, _: turn < 3, lambda turn, total: (turn + 1, hvd.allreduce(total, op=hvd.Sum)),
                              (0, tf.ones([1])))[1]
        gathered, rows = hvd.allgather(inputs[3]), hvd.alltoall(tf.repeat(inputs[4], SIZE), [1] * SIZE)[0]
        for threads in (1, 2):
            with session(threads) as run:
                totals = run.run([found[i] for i in range(6)])
                assert [total[0] for total in totals] == [10.0 * i * SIZE + sum(range(SIZE)) for i in range(6)], totals
                values = run.run([branch, turns, gathered, rows, hvd.size_op()])
                assert values[0] == 10 + SIZE - 1 and values[1] == SIZE ** 3 and values[4] == SIZE, values
                assert values[2].tolist() == [30.0 + rank for rank in range(SIZE)], values
                assert values[3].tolist() == [40.0 + rank for rank in range(SIZE)], values


def gradient():
    """Of a call: the gradient of the sum over ranks is the sum of gradients."""
    with tf.Graph().as_default():
        x, y = tf.constant([2.0 + RANK]), tf.constant([3.0])
        z = hvd.allreduce(x, op=hvd.Sum) * y * (RANK + 1.0)
        with session() as run:
            assert run.run(tf.gradients(z, x)[0]) == 3 * SIZE * (SIZE + 1) / 2


def different():
    """A call that the others never run is one error that names it."""
    with tf.Graph().as_default(), session() as run:
        mine = hvd.allreduce(tf.constant([1.0]), name=f"of rank {RANK}")
        try:
            run.run(mine)
        except tf.errors.OpError as error:
            assert f"'of rank {RANK}' was begun" in str(error) or "ABORTED" in str(error) or "DEADLINE" in str(error), error
            return
    raise AssertionError("it was run")


calls()
gradient()
if SIZE > 1:
    sparse_gradients()
    lockstep.world()._timeout = lockstep.world().named._limit = 1.0
    different()
print("whole", flush=True)
