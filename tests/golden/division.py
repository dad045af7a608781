#!/usr/bin/env python3
"""Records how TensorFlow divides batches over workers and replicas; prints division.txt.

    python3 tests/golden/division.py > tests/golden/division.txt

For each case: the dataset 0 .. rows - 1 in batches, rebatched and sharded per worker exactly as
experimental_distribute_dataset does, and the mini-batches that come out, as first+count ("-" for an empty one). The
replicas of a worker take its mini-batches in turn.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute
from tensorflow.python.distribute import input_ops

# rows, global batch, workers, replicas of each worker, drop_remainder
CASES = [
    (22, 7, 2, 2, 0), (22, 7, 2, 2, 1), (22, 8, 2, 2, 0), (22, 8, 2, 2, 1), (14, 7, 2, 2, 0), (7, 7, 2, 2, 0),
    (6, 6, 2, 3, 0), (12, 9, 2, 2, 0), (30, 9, 4, 1, 0), (30, 9, 1, 4, 0), (30, 9, 3, 1, 0), (31, 10, 3, 2, 0),
    (31, 10, 3, 2, 1), (1, 7, 2, 2, 0), (3, 7, 2, 2, 0), (5, 1, 2, 1, 0), (5, 1, 2, 2, 0), (16, 3, 2, 3, 0),
    (16, 3, 2, 3, 1), (57, 4, 2, 3, 0), (19, 7, 4, 3, 0), (19, 7, 4, 3, 1), (12, 2, 4, 1, 0), (53, 4, 3, 3, 0),
    (42, 6, 3, 3, 0), (10, 4, 1, 1, 0), (10, 4, 1, 2, 0), (10, 4, 1, 3, 0), (10, 3, 2, 1, 0), (11, 3, 2, 1, 0),
    (60, 16, 4, 2, 0), (61, 16, 4, 2, 0), (29, 13, 5, 1, 0), (29, 13, 1, 5, 0), (20, 19, 3, 2, 0), (40, 11, 2, 4, 0),
    (40, 11, 4, 2, 0), (33, 32, 2, 2, 0), (100, 32, 3, 1, 0), (9, 20, 2, 2, 0),
]
POLICIES = [tf.data.experimental.AutoShardPolicy.DATA, tf.data.experimental.AutoShardPolicy.OFF]


def mini_batches(rows, batch, workers, replicas, drop, policy, worker):
    dataset = tf.data.Dataset.range(rows).batch(batch, drop_remainder=bool(drop))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    dataset = dataset.with_options(options)
    if workers * replicas > 1:
        size = distribute.compute_batch_size(dataset)
        sizes = distribute.batch_sizes_for_worker(size, workers, replicas, worker)
        dataset = dataset.rebatch(sizes).prefetch(replicas)
    dataset = input_ops.auto_shard_dataset(dataset, workers, worker, workers * replicas)
    return [[int(value) for value in piece] for piece in dataset]


def text(piece):
    assert piece == list(range(piece[0], piece[0] + len(piece))) if piece else True
    return f"{piece[0]}+{len(piece)}" if piece else "-"


print(f"# TensorFlow {tf.__version__}; made by division.py")
for rows, batch, workers, replicas, drop in CASES:
    for policy in POLICIES:
        print(f"case {rows} {batch} {workers} {replicas} {drop} {policy.name}")
        for worker in range(workers):
            pieces = mini_batches(rows, batch, workers, replicas, drop, policy, worker)
            print(" ".join(["worker", str(worker)] + [text(piece) for piece in pieces]))
