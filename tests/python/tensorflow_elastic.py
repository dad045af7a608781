"""One rank of a training of Keras, or of plain variables in tf.function, that loses a rank amid and ends with the weights of
an undisturbed one. argv: keras or plain, and who dies ("rank:step" or "-")."""
import os
import signal
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

import lockstep.tensorflow as hvd
import lockstep.tensorflow.keras as hvd_keras

keras = tf.keras
EPOCHS, STEPS = 3, 4
first = os.environ.get("LOCKSTEP_RESTART_COUNT", "0") == "0"
hvd.init()
drawn = np.random.default_rng(1)
x = drawn.normal(size=(STEPS, 6 * hvd.size(), 3)).astype("float32")
y = x.sum(-1, keepdims=True)


def die(step):
    if first and sys.argv[2] == f"{hvd.rank()}:{step}":
        os.kill(os.getpid(), signal.SIGKILL)


def plain():
    """Commits each second step; the collective call is in a graph."""
    weights = [tf.Variable(np.full((3, 1), 0.1 * (hvd.rank() + 1) + (0 if first else 5), "float32"))]

    @tf.function
    def step(inputs, outputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(inputs @ weights[0] - outputs))
        tape = hvd.DistributedGradientTape(tape)
        weights[0].assign_sub(0.1 * tape.gradient(loss, weights)[0])

    @hvd.elastic.run
    def train(state):
        while state.step < EPOCHS * STEPS:
            die(state.step)
            batch = state.step % STEPS
            step(x[batch, hvd.rank()::hvd.size()], y[batch, hvd.rank()::hvd.size()])
            state.step += 1
            if state.step % 2 == 0:
                state.commit()
    state = hvd.elastic.TensorFlowState(variables=weights, step=0)
    train(state)
    assert state.step == EPOCHS * STEPS
    return [weight.numpy() for weight in weights]


class Die(keras.callbacks.Callback):
    def __init__(self, state):
        super().__init__()
        self.state = state

    def on_train_batch_begin(self, batch, logs=None):
        die(self.state.epoch * STEPS + self.state.batch)


def fit():
    """Commits each epoch; the collective call is in the model's compiled step."""
    keras.utils.set_random_seed(hvd.rank() + (0 if first else 9))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01))
    model.compile(optimizer=optimizer, loss="mse", jit_compile=False)
    if first and hvd.rank() == 0:
        model.set_weights([np.full_like(weight, 0.1) + np.arange(weight.size).reshape(weight.shape) / 9
                           for weight in model.get_weights()])
    state = hvd_keras.elastic.KerasState(model, epoch=0, batch=0)

    @hvd_keras.elastic.run
    def train(state):
        mine = slice(hvd.rank(), None, hvd.size())
        data = tf.data.Dataset.from_tensor_slices((x[:, mine], y[:, mine]))
        callbacks = [Die(state), hvd_keras.elastic.UpdateBatchStateCallback(state),
                     hvd_keras.elastic.UpdateEpochStateCallback(state),
                     hvd_keras.elastic.CommitStateCallback(state, batches_per_commit=STEPS)]
        model.fit(data, epochs=EPOCHS - state.epoch, callbacks=callbacks, verbose=0)
    train(state)
    assert (state.epoch, state.batch) == (EPOCHS, 0), (state.epoch, state.batch)
    return model.get_weights()


found = fit() if sys.argv[1] == "keras" else plain()
total = float(sum(np.abs(weight).sum(dtype=np.float64) for weight in found))
everybody = hvd.allgather_object(total)
assert all(other == everybody[0] for other in everybody), everybody
print(f"whole {total.hex()}")
