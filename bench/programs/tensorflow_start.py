"""Starts, joins a MultiWorkerMirroredStrategy, adds one vector of 4 KB over all processes, waits HOLD seconds and ends,
for bench/start. Each process has its TF_CONFIG.

usage: tensorflow_start.py HOLD
"""
import sys
import time

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def add():
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones(1024))


if not bool(tf.reduce_all(strategy.run(add) == strategy.num_replicas_in_sync)):
    sys.exit("tensorflow_start: the sum is wrong")
time.sleep(float(sys.argv[1]))
