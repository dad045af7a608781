"""The machine that is checked: its programs and their environment, the time that a part may take, and how much it is
given to do."""
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from run import Failure, kill_all, run_all, start, tail

from . import ROOT

FIND_CUDA = """
import glob, os, sysconfig
for place in glob.glob(os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "*", "lib")): print(place)
"""


class Bad(Exception):
    """A part has failed; the text says how."""


def need(truth, text):
    if not truth:
        raise Bad(text)


# What the parts are given to do.
ON_GPU = SimpleNamespace(
    image=64,  # pixels of a side
    limit=640,  # examples of an epoch
    batch=32,
    steps=20,  # whose losses are compared
    models=("mlp", "lenet", "mobilenet_v2", "resnet50"),
    workers=(2, 4),  # how many there are
    communications=("nccl", "auto", "ring"),
    bytes="4K,1M,64M",  # of lockstep bench
    kill_epochs=40,  # long enough to kill somebody while they last
    subjects=(),  # of the tests of tests/device; empty: all
    speed=("--batch", 256, "--steps", 20, "--precisions", "float32", "mixed_bfloat16", "--roofline"))  # of bench/gpu
# Each part runs as on a GPU, a thousand times slower: one or two of each size.
EMULATED = SimpleNamespace(
    image=16, limit=16, batch=8, steps=2, models=("mlp", "lenet"), workers=(2,), communications=("nccl",), bytes="4K",
    kill_epochs=12, subjects=("elements", "loss", "report"),
    speed=("--batch", 1, "--steps", 1, "--image-size", 32, "--models", "mobilenet_v2", "--precisions", "float32",
           "--leave-out", "eager", "compiled", "--roofline", "--ops", "batch norm"))


@dataclass
class Machine:
    place: Path  # of the programs
    python: str  # one that may have torch
    own: dict  # the environment of lockstep's programs
    ends: float  # of the part that runs, by the monotonic clock
    sizes: SimpleNamespace

    def left(self):
        return max(0.1, self.ends - time.monotonic())

    def lockstep(self, *arguments):
        return [str(self.place / "lockstep"), *map(str, arguments)]

    def run_all(self, commands):
        """Runs [(command, environment)] at the same time; the standard output of each."""
        return run_all([(list(map(str, command)), own) for command, own in commands], self.left())

    def run(self, command, **extra):
        return self.run_all([(command, {**self.own, **extra})])[0]

    def run_to_end(self, command, own, limit):
        """Its exit status, None where it did not end in time; what it wrote; the last lines of its errors."""
        with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+", errors="replace") as log:
            child = start(command, own, output, log)
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                kill_all([(child, open(os.devnull, "w", encoding="utf-8"))])
            output.seek(0)
            return code, output.read(), tail(log)


def ask(python, program):
    """What a program in the peers' python prints; nothing where that is not there."""
    try:
        return subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def has_torch(machine):
    return "torch" in ask(machine.python, "import importlib.util as u\nif u.find_spec('torch'): print('torch')")


def library_path(place, python):
    """Ours first: what lies beside is for lockstep's programs only, since others bring newer ones of the same name."""
    paths = [str(place), str(place / "lib"), *ask(python, FIND_CUDA).split(), "/usr/local/cuda/lib64"]
    return ":".join(filter(None, [*paths, os.environ.get("LD_LIBRARY_PATH", "")]))


def find_machine(place, python, emulated):
    own = {**os.environ, "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": library_path(place, python)}
    for name in ("TF_CONFIG", "LOCKSTEP_DEVICES"):
        own.pop(name, None)
    if emulated:
        own["LOCKSTEP_PLUGIN"] = str(place / "tests/cuda/lockstep-cuda-emulated.so")
        need(Path(own["LOCKSTEP_PLUGIN"]).exists(), f"{own['LOCKSTEP_PLUGIN']} is not there: it is built where CUDA's headers are")
    plugins = sorted(place.rglob("lockstep-cuda.so"))
    if plugins:
        own.setdefault("LOCKSTEP_PLUGIN", str(plugins[0]))
    own["LOCKSTEP_TEST_GOLDEN"] = str(ROOT / "tests/golden")
    return Machine(place, python, own, 0, EMULATED if emulated else ON_GPU)
