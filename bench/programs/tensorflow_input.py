#!/usr/bin/env python3
"""Reads images through tf.data with one thread: list of files, read, decode, resize, / 255, batch. One JSON line.

usage: tensorflow_input.py FOLDER SIDE SECONDS [INTEGER_FAST|INTEGER_ACCURATE]"""
import glob
import json
import os
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
folder, side, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
method = sys.argv[4] if len(sys.argv) > 4 else ""


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method=method)
    return tf.image.resize(image, (side, side)) / 255.0


options = tf.data.Options()
options.threading.private_threadpool_size = 1
options.threading.max_intra_op_parallelism = 1
paths = sorted(glob.glob(os.path.join(folder, "train", "*", "*.jpg")))
data = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).map(load, num_parallel_calls=1).batch(32)
data = data.repeat().prefetch(2).with_options(options)
batches = iter(data)
end = time.monotonic() + seconds / 5
while time.monotonic() < end:
    next(batches)
images, begun, end = 0, time.process_time(), time.monotonic() + seconds
while time.monotonic() < end:
    images += int(next(batches).shape[0])
print(json.dumps({"images_per_second": images / (time.process_time() - begun)}))
