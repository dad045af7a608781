"""Tensors of torch as named float32 in text, which golden.c reads."""
import pathlib

import numpy as np
import torch


def hex_float(value):
    """The shortest hexadecimal text of a float: 0x1.8p+1."""
    if not np.isfinite(value):
        raise ValueError(f"{value} cannot be recorded")
    mantissa, exponent = float(value).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def version():
    return torch.__version__.split("+")[0]


def write(script, subject, versions, tensors):
    """The .txt file that script, record_SUBJECT.py, is named after; its first lines say the subject and the versions."""
    path = pathlib.Path(script).resolve()
    lines = [f"# {subject}", f"# Recorded by tests/golden/{path.name} with {versions}."]
    for key, value in tensors.items():
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value, dtype=np.float32)
        lines.append(" ".join(["tensor", key, str(array.ndim), *map(str, array.shape)]))
        flat = [hex_float(v) for v in array.reshape(-1)]
        lines += [" ".join(flat[i:i + 8]) for i in range(0, len(flat), 8)]
    path.with_name(path.stem.removeprefix("record_") + ".txt").write_text("\n".join(lines) + "\n", encoding="ascii")
