#!/usr/bin/env python3
"""Records what each worker gets of TensorFlow's AutoShardPolicy.HINT, wherever shard(SHARD_HINT, SHARD_HINT) stands in the
pipeline; prints hint.txt.

    python3 tests/golden/hint.py > tests/golden/hint.txt

For each case: the dataset 0 .. examples - 1, repeated, in batches, with the placeholder behind the source (EXAMPLES), behind
the repetition (ROWS) or behind the batches (BATCHES); rebatched and sharded per worker as experimental_distribute_dataset
does. A line a worker: its mini-batches, which its replicas take in turn, as numbers joined by commas ("-": empty).
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute
from tensorflow.python.distribute import input_ops

# examples, repeat, global batch, workers, replicas of each worker, drop_remainder
CASES = [
    (22, 1, 8, 2, 1, 0), (22, 1, 8, 2, 1, 1), (22, 2, 7, 2, 2, 0), (22, 2, 7, 2, 2, 1), (23, 1, 5, 3, 1, 0),
    (23, 3, 4, 3, 1, 0), (31, 1, 6, 2, 3, 0), (9, 1, 2, 4, 1, 0), (17, 2, 4, 4, 2, 0), (12, 1, 4, 1, 2, 0),
    (50, 1, 4, 3, 2, 1), (2, 2, 1, 2, 1, 0),
]
HINT = tf.data.experimental.SHARD_HINT


def pipeline(case, place):
    examples, repeat, batch, _, _, drop = case
    dataset = tf.data.Dataset.range(examples)
    if place == "EXAMPLES":
        dataset = dataset.shard(HINT, HINT)
    dataset = dataset.repeat(repeat)
    if place == "ROWS":
        dataset = dataset.shard(HINT, HINT)
    dataset = dataset.batch(batch, drop_remainder=bool(drop))
    return dataset.shard(HINT, HINT) if place == "BATCHES" else dataset


def mini_batches(case, place, worker):
    _, _, _, workers, replicas, _ = case
    dataset = pipeline(case, place)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.HINT
    dataset = dataset.with_options(options)
    size = distribute.compute_batch_size(dataset)
    assert size > 0, "the batch size is not known"
    sizes = distribute.batch_sizes_for_worker(size, workers, replicas, worker)
    dataset = dataset.rebatch(sizes).prefetch(replicas)
    dataset = input_ops.auto_shard_dataset(dataset, workers, worker, workers * replicas)
    return [[int(value) for value in piece] for piece in dataset]


print(f"# TensorFlow {tf.__version__}; made by hint.py")
for one in CASES:
    for where in ("EXAMPLES", "ROWS", "BATCHES"):
        print("case", *one, where)
        for number in range(one[3]):
            pieces = mini_batches(one, where, number)
            print("worker", number, *(",".join(map(str, piece)) or "-" for piece in pieces))
