"""Tests that take long, have one outcome for the same sources, and prove something about few files: models, large fleets, arithmetic of
all numbers. scripts/test leaves one out in a build while tests/proved has the digest of the files that it guards. A change of these runs it at once."""
import functools
import glob
import hashlib
import os

import testlog

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROVED = os.path.join(ROOT, "tests", "proved")
HELPERS = ("tests/harness.h", "meson.build", "src/meson.build")
CONTROL = ("src/base/*", "src/cluster/**", "src/resolver/*", "proto/*", "tests/cluster/*")
COLLECTIVE = ("src/base/*", "src/collective/**", "tests/collective/*")
# Their tests are where CUDA's compiler or headers are.
GPU = ("src/base/*", "src/device/**", "tests/device/*", "tests/cuda/**", "tests/golden/**")
# Each test and what it guards.
GUARDS = {
    "protocol/model": ("src/cluster/**", "tests/protocol/*"),
    "protocol/store": ("src/store/*", "src/shard/*", "tests/protocol/*"),
    "simulation/scenarios": (*CONTROL, "src/collective/**", "tests/simulation/*"),
    "collective/scale": COLLECTIVE,
    "end_to_end/learned": ("src/base/*", *("src/%s/**" % room for room in ("data", "device", "model", "gradients", "train", "sync")),
                           "tests/end_to_end/learned_test.py", "tests/end_to_end/images_test.py"),
    "house/plugin": GPU,
    "cli/gpu_check": (*GPU, "src/model/**", "src/gradients/*", "src/train/*", "src/sync/*", "scripts/gpu-check", "scripts/gpu_check/*",
                      "tests/cli/gpu_check.py", "tests/recovery/job.py", "tests/builds.py"),
    **{"device/%s-gpu" % subject: GPU for subject in ("queue", "device", "loss", "dense", "products", "optimizer", "report", "image", "half",
                                                      "batch_norm", "elements", "conformance")},
    **{"cluster/%s_star" % subject: CONTROL for subject in ("exchange", "leave", "heartbeat", "lost", "missing", "refusal")},
}


@functools.lru_cache(None)
def digest_of(patterns):
    """Of the names and contents of all files."""
    found = hashlib.sha256()
    paths = {path for pattern in patterns for path in glob.glob(os.path.join(ROOT, pattern), recursive=True)}
    for path in sorted(path for path in paths if os.path.isfile(path) and "__pycache__" not in path):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
        found.update(("%s %s\n" % (os.path.relpath(path, ROOT), content)).encode())
    return found.hexdigest()


def digest(name):
    """Of what the test guards."""
    return digest_of((*GUARDS[name], *HELPERS))


def read():
    """{(build folder, name): digest}"""
    if not os.path.exists(PROVED):
        return {}
    with open(PROVED, encoding="ascii") as file:
        return {(folder, name): proved for folder, name, proved in (line.split() for line in file)}


def name_of(folder):
    return os.path.basename(os.path.realpath(folder))


def stands(folder, name):
    return name in GUARDS and read().get((name_of(folder), name)) == digest(name)


def write(folder, entries):
    """To tests/proved which of the folder's proofs passed, with the sources of now."""
    passed = [testlog.name_of(entry) for entry in entries if entry["result"] == "OK"]
    proved = {**read(), **{(name_of(folder), name): digest(name) for name in passed if name in GUARDS}}
    with open(PROVED, "w", encoding="ascii") as file:
        file.writelines("%s %s %s\n" % (*key, proved[key]) for key in sorted(proved) if key[1] in GUARDS)
