#!/usr/bin/env python3
"""Records how TensorFlow decodes and resizes images: writes tests/golden/images/ and resize.txt beside this script.

For each image NAME.jpg or NAME.png there is NAME.pixels, the bytes of tf.io.decode_image (height x width x channels, as
sizes.txt says), and of some NAME.grey.pixels, the same with channels=1. Needs only a Python with tensorflow; the tests
never need it.
"""

import os
import pathlib
import struct
import zlib

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(__file__).resolve().parent
IMAGES = FOLDER / "images"


def picture(height, width):
    """Edges, a gradient and a wave, so that every step of a decoder matters."""
    y, x = np.mgrid[0:height, 0:width]
    red = np.where((x // 5 + y // 7) % 2, 230, 20)
    green = (x * 255) // width
    blue = 128 + 100 * np.sin(x * y / 60.0)
    return np.stack([red, green, blue], -1).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, *more, interlace=0):
    """A PNG from raw rows, for the forms that tf.io.encode_png does not write."""
    raw = b"".join(b"\0" + row for row in rows)
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(more) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def palette_png():
    colors = bytes((i * 37) % 256 for i in range(3 * 16))
    rows = [bytes(((x + y) % 16) << 4 | (x * y) % 16 for x in range(6)) for y in range(9)]
    return png(12, 9, 4, 3, rows, chunk(b"PLTE", colors))


def transparent_palette_png():
    colors = bytes((i * 91 + 7) % 256 for i in range(3 * 4))
    rows = [bytes((x * 3 + y * 5) % 4 for x in range(11)) for y in range(8)]
    return png(11, 8, 8, 3, rows, chunk(b"PLTE", colors), chunk(b"tRNS", bytes([0, 128, 255, 10])))


def bits_png():
    return png(19, 6, 1, 0, [bytes([0x5A ^ y, 0x33, 0xE0]) for y in range(6)])


def interlaced_png():
    """Adam7, 8 x 8 grey: the seven passes one after the other."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = [bytes((x * 29 + y * 13) % 256 for x in range(x0, 8, dx)) for x0, y0, dx, dy in passes for y in range(y0, 8, dy)]
    return png(8, 8, 8, 0, rows, interlace=1)


def images():
    color, grey = picture(37, 53), picture(37, 53)[..., :1]
    alpha = np.concatenate([color, np.full((37, 53, 1), 77, np.uint8)], -1)
    deep = (color.astype(np.uint16) * 257) ^ 0x35
    return {
        "half.jpg": tf.io.encode_jpeg(color, quality=80).numpy(),
        "full.jpg": tf.io.encode_jpeg(color, quality=95, chroma_downsampling=False).numpy(),
        "low.jpg": tf.io.encode_jpeg(color, quality=20).numpy(),
        "progressive.jpg": tf.io.encode_jpeg(color, quality=80, progressive=True).numpy(),
        "grey.jpg": tf.io.encode_jpeg(grey, format="grayscale").numpy(),
        "color.png": tf.io.encode_png(color).numpy(),
        "grey.png": tf.io.encode_png(grey).numpy(),
        "alpha.png": tf.io.encode_png(alpha).numpy(),
        "deep.png": tf.io.encode_png(deep).numpy(),
        "palette.png": palette_png(),
        "transparent.png": transparent_palette_png(),
        "bits.png": bits_png(),
        "interlaced.png": interlaced_png(),
    }


def record_images():
    lines = [f"# image height width channels, tensorflow {tf.__version__}"]
    IMAGES.mkdir(exist_ok=True)
    for name, data in images().items():
        (IMAGES / name).write_bytes(data)
        grey = name.startswith(("grey", "bits", "interlaced"))
        pixels = tf.io.decode_image(data, channels=1 if grey else 3).numpy()
        (IMAGES / f"{name}.pixels").write_bytes(pixels.tobytes())
        lines.append(f"{name} {' '.join(map(str, pixels.shape))}")
    (IMAGES / "sizes.txt").write_text("\n".join(lines) + "\n")


def hex_float(value):
    mantissa, exponent = float(value).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def record_resize():
    lines = [f"# tf.image.resize of color.png's and grey.png's pixels, tensorflow {tf.__version__}"]
    color, grey = picture(37, 53), picture(37, 53)[..., :1]
    for name, image in (("color", color), ("grey", grey)):
        for height, width in ((16, 16), (37, 53), (50, 20), (1, 1), (7, 90), (38, 54)):
            if height == (50 if name == "grey" else 38):
                continue
            values = tf.image.resize(image, (height, width)).numpy()
            lines.append(f"tensor {name}/{height}x{width} 3 {height} {width} {values.shape[2]}")
            flat = [hex_float(v) for v in values.reshape(-1)]
            lines += [" ".join(flat[i : i + 8]) for i in range(0, len(flat), 8)]
    (FOLDER / "resize.txt").write_text("\n".join(lines) + "\n")


record_images()
record_resize()
