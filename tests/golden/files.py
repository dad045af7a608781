#!/usr/bin/env python3
"""Records data files as TensorFlow and NumPy write them, in tests/golden/files/: TFRecord files (plain and gzipped) of the
Examples of tensorflow_datasets and of torchvision-like ImageNet conversions, and .npz archives (stored and packed).
Needs only a Python with tensorflow; the tests never need it.

Example i of all has pixel p equal to (40 i + 7 p) mod 256 and label i mod 3.
"""

import os
import pathlib

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(__file__).resolve().parent / "files"
COUNT, HEIGHT, WIDTH = 5, 4, 3


def image(i):
    return ((40 * i + 7 * np.arange(HEIGHT * WIDTH)) % 256).astype(np.uint8).reshape(HEIGHT, WIDTH, 1)


def bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def int_feature(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def example(i, image_name, label_name):
    features = {
        image_name: bytes_feature(tf.io.encode_png(image(i)).numpy()),
        "image/filename": bytes_feature(f"PetImages/{i}.png".encode()),
        label_name: int_feature(i % 3),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)


def numbers(i):
    features = {
        "features": tf.train.Feature(float_list=tf.train.FloatList(value=image(i).reshape(-1) / np.float32(255))),
        "label": int_feature(i % 3),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)


def records(name, options, examples):
    with tf.io.TFRecordWriter(str(FOLDER / name), options) as writer:
        for one in examples:
            writer.write(one)


FOLDER.mkdir(exist_ok=True)
records("plain.tfrecord", None, [example(i, "image", "label") for i in range(COUNT)])
records("gzipped.tfrecord", "GZIP", [example(i, "image/encoded", "image/class/label") for i in range(COUNT)])
records("zlib.tfrecord", "ZLIB", [example(i, "image", "label") for i in range(COUNT)])
records("numbers.tfrecord", None, [numbers(i) for i in range(COUNT)])
x = np.stack([image(i)[..., 0] for i in range(COUNT)])
y = np.arange(COUNT) % 3
np.savez(FOLDER / "stored.npz", x_train=x, y_train=y.astype(np.uint8), x_test=x[:2], y_test=y[:2])
np.savez_compressed(FOLDER / "packed.npz", x_train=x[..., None] / 255.0, y_train=y.astype(np.int32))
np.save(FOLDER / "fortran.npy", np.asfortranarray(x.astype(np.float32)))

# interleave.txt: cycle_length, block_length, number of files, their sizes; then the order of all examples
lines = []
for cycle, block, *sizes in ((2, 1, 3, 2, 4, 1), (3, 2, 5, 2, 4, 3, 1, 2), (1, 3, 2, 3), (4, 1, 2, 2), (2, 3, 3, 6, 1, 2, 7), (16, 2, 3, 1)):
    firsts = np.cumsum([0, *sizes[:-1]])
    files = tf.data.Dataset.from_tensor_slices((firsts.astype(np.int64), np.array(sizes, np.int64)))
    order = files.interleave(lambda first, size: tf.data.Dataset.range(first, first + size), cycle_length=cycle,
                             block_length=block)
    lines += [" ".join(map(str, [cycle, block, len(sizes), *sizes])), " ".join(str(int(i)) for i in order)]
(FOLDER / "interleave.txt").write_text("\n".join(lines) + "\n", encoding="ascii")
