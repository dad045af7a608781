#!/usr/bin/env python3
"""Records what Keras' augmentation layers do with a fixed factor, for the tests of data: writes augmentation.txt, in the
format of record.py.

Each case is drawn a second time by the few lines of NumPy below. The script stops where the two differ. Only WRAP between
the last pixel and the first is NumPy's alone: TensorFlow takes the nearer pixel there."""

from record import write  # sets the environment before TensorFlow is loaded

import itertools

import keras
import numpy as np

SHAPES = [(5, 7, 3), (4, 4, 1), (1, 1, 1), (1, 6, 2)]
FILLS = ["reflect", "constant", "nearest", "wrap"]
FILL_VALUE = 0.25
ROTATIONS = [0.0, 0.25, 0.07, -0.4]
ZOOMS = [(0.0, 0.0), (0.3, -0.5), (-0.4, 0.8)]
SHIFTS = [(0.0, 0.0), (0.2, -0.35), (-0.9, 0.6)]
TOLERANCE = 2e-5  # Keras' matrices are float32


def outside(i, length, fill):
    """The place in the axis, or None."""
    if fill == "constant":
        return i if 0 <= i < length else None
    if fill == "nearest":
        return min(max(i, 0), length - 1)
    line = list(range(length)) + (list(range(length))[::-1] if fill == "reflect" else [])
    return line[i % len(line)]


def sample(image, y, x, fill):
    value = np.zeros(image.shape[2])
    top, left = int(np.floor(y)), int(np.floor(x))
    for i, j in itertools.product((0, 1), (0, 1)):
        row, column = outside(top + i, image.shape[0], fill), outside(left + j, image.shape[1], fill)
        pixel = FILL_VALUE if row is None or column is None else image[row, column]
        value += (abs(1 - i - (y - top)) * abs(1 - j - (x - left))) * pixel
    return value


def moved(image, place, fill):
    out = np.empty(image.shape)
    for y, x in np.ndindex(image.shape[:2]):
        out[y, x] = sample(image, *place(y, x), fill)
    return out


def rotated(image, factor, fill):
    """Counter-clockwise: what stands at an angle comes from a smaller one. y goes down."""
    center, turn = (np.array(image.shape[:2]) - 1) / 2, np.exp(2j * np.pi * factor)

    def place(y, x):
        point = complex(x - center[1], y - center[0]) * turn
        return point.imag + center[0], point.real + center[1]
    return moved(image, place, fill)


def zoomed(image, factors, fill):
    center = (np.array(image.shape[:2]) - 1) / 2
    return moved(image, lambda y, x: center + (np.array([y, x]) - center) * (1 + np.array(factors)), fill)


def shifted(image, factors, fill):
    return moved(image, lambda y, x: np.array([y, x]) - np.array(factors) * image.shape[:2], fill)


def hue(images, factor):
    layer = keras.layers.RandomHue(1.0, value_range=(0, 1))
    return np.asarray(layer.transform_images(images[None], {"factor": np.array([factor / 2], np.float32)}))[0]


def saturation(images, factor):
    return np.asarray(keras.layers.RandomSaturation((factor, factor), value_range=(0, 1))(images[None]))[0]


def images_of(random):
    """With greys and ties among the colours."""
    for shape in SHAPES:
        image = random.uniform(size=shape).astype(np.float32)
        if shape[2] == 3:
            image[0, 0], image[1, 1, 0], image[2, 2, 1] = 0.5, image[1, 1, 2], image[2, 2, 0]
            image[3, 3] = 0
        yield "x".join(map(str, shape)), image


def record():
    layers, tensors = keras.layers, {}

    def keep(name, image, fill, layer, own):
        theirs = np.asarray(layer(image[None], training=True))[0]
        if fill != "wrap" and np.abs(theirs - own).max() > TOLERANCE:
            raise SystemExit(f"{name}: Keras and NumPy differ:\n{theirs}\n{own}")
        tensors[name] = own if fill == "wrap" else theirs

    for size, image in images_of(np.random.default_rng(21)):
        tensors[f"image/{size}"] = image
        for fill in FILLS:
            how = {"fill_mode": fill, "fill_value": FILL_VALUE}
            for i, factor in enumerate(ROTATIONS):
                keep(f"rotation/{i}/{fill}/{size}", image, fill, layers.RandomRotation((factor, factor), **how),
                     rotated(image, factor, fill))
            for i, (y, x) in enumerate(ZOOMS):
                keep(f"zoom/{i}/{fill}/{size}", image, fill, layers.RandomZoom((y, y), (x, x), **how),
                     zoomed(image, (y, x), fill))
            for i, (y, x) in enumerate(SHIFTS):
                keep(f"translation/{i}/{fill}/{size}", image, fill, layers.RandomTranslation((y, y), (x, x), **how),
                     shifted(image, (y, x), fill))
        if image.shape[2] == 3:
            for i, factor in enumerate([0.0, 0.3, 1.0]):
                tensors[f"hue/{i}/{size}"], tensors[f"hue/-{i}/{size}"] = hue(image, factor), hue(image, -factor)
            for i, factor in enumerate([0.0, 0.2, 0.5, 0.8, 1.0]):
                tensors[f"saturation/{i}/{size}"] = saturation(image, factor)
    write("augmentation.txt", "Keras' augmentation layers with fixed factors.", tensors)


if __name__ == "__main__":
    record()
