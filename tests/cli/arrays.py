"""NumPy's .npz files, written by nothing but the format's description."""
import struct
import zipfile


def npy(kind, shape, values):
    """kind: "<f4", "<i4"; shape: a tuple; values: all of them in order."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    letter = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B"}[kind]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(
        "<%d%s" % (len(values), letter), *values)


def npz(path, arrays):
    """arrays: name to what npy takes."""
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            file.writestr(name + ".npy", npy(*array))
    return path


def dots(path, examples=96, width=4, classes=3, change=None):
    """A small dataset of both splits whose labels follow from the features; change(x, y) may spoil the train split."""
    arrays = {}
    for split in ("train", "test"):
        y = [i % classes for i in range(examples)]
        x = [((i * 7 + j * 3) % 11) / 11 + (2 if j == y[i] else 0) for i in range(examples) for j in range(width)]
        if split == "train" and change:
            change(x, y)
        arrays["x_" + split] = ("<f4", (examples, width), x)
        arrays["y_" + split] = ("<i4", (examples,), y)
    return npz(path, arrays)
