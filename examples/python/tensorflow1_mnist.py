"""A small network on drawn digits in TensorFlow 1's way, with a graph and a session: lockstep run -np 2 -- python3 tensorflow1_mnist.py

It is written for Horovod; only the import is lockstep's. TensorFlow 2 runs it by its module compat.v1, whose layers are tf-keras'."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
import numpy as np
import tensorflow.compat.v1 as tf

import lockstep.tensorflow as hvd

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
hvd.init()
BATCH, STEPS = 32, 240  # of all ranks
drawn = np.random.default_rng(1)
patterns = drawn.normal(size=(10, 12, 12, 1)).astype("float32")
labels = drawn.integers(0, 10, 1280)
images = patterns[labels] + 0.7 * drawn.normal(size=(1280, 12, 12, 1)).astype("float32")

data = tf.data.Dataset.from_tensor_slices((images, labels)).shard(hvd.size(), hvd.rank())
data = data.repeat().shuffle(512, seed=hvd.rank()).batch(BATCH)
image, label = tf.data.make_one_shot_iterator(data).get_next()

tf.set_random_seed(hvd.rank())
hidden = tf.layers.conv2d(image, 8, 3, activation=tf.nn.relu)
hidden = tf.layers.flatten(tf.layers.max_pooling2d(hidden, 2, 2))
hidden = tf.layers.dense(hidden, 32, activation=tf.nn.relu)
logits = tf.layers.dense(hidden, 10)
loss = tf.losses.sparse_softmax_cross_entropy(label, logits)
accuracy = hvd.allreduce(tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), label), tf.float32)), name="accuracy")

optimizer = hvd.DistributedOptimizer(tf.train.AdamOptimizer(0.001 * hvd.size()))
train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
sums = hvd.allgather(tf.stack([[tf.reduce_sum(tf.cast(variable, tf.float64)) for variable in tf.trainable_variables()]]), name="sums")

with tf.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
    right = [session.run([train, accuracy])[1] for _ in range(STEPS // hvd.size())]
    everybody = session.run(sums)

assert (everybody == everybody[0]).all(), "the ranks have different weights"
if hvd.rank() == 0:
    print(f"accuracy {np.mean(right[-10:]):.4f}")
