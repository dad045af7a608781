"""One worker of bench/recovery on TensorFlow's side: the MLP 784-128-64-10 under MultiWorkerMirroredStrategy, Keras'
fit with BackupAndRestore, started with its TF_CONFIG. Keras is tf_keras, for Keras 3's fit fails under this strategy
and its BackupAndRestore forgets the place within an epoch."""
import json
import os

import tensorflow as tf
import tf_keras as keras

from log import CHECKPOINT_STEPS, Log, parse

ROWS, BATCH = 640, 64


class Steps(keras.callbacks.Callback):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def on_train_batch_end(self, batch, logs=None):
        self.log.end_step(int(self.model.optimizer.iterations.numpy()))


def make_data(replicas):
    features = tf.random.stateless_uniform((ROWS, 784), [7, 0])
    labels = tf.random.stateless_uniform((ROWS,), [7, 1], 0, 10, tf.int32)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(BATCH * replicas).with_options(options)


def make_model():
    model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(64, "relu"),
                              keras.layers.Dense(10)])
    model.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def main():
    options = parse(__doc__)
    log = Log(options.log, json.loads(os.environ["TF_CONFIG"])["task"]["index"], options.period)
    log.write_loaded()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = make_model()
    log.enter_training()
    model.fit(make_data(strategy.num_replicas_in_sync), steps_per_epoch=options.steps, verbose=0,
              callbacks=[Steps(log), keras.callbacks.BackupAndRestore(options.checkpoint, save_freq=CHECKPOINT_STEPS)])


if __name__ == "__main__":
    main()
