#!/usr/bin/env python3
"""Tests that take long, have one outcome for the same sources, and prove something about few files: models, large fleets, arithmetic of
all numbers. scripts/test leaves one out in a build while tests/proved has the digest of the files that it guards. A change of these runs it at once.

usage: tests/proofs.py LOG...  writes to tests/proved which of them passed, by these testlogs of meson, with the sources of now"""
import functools
import glob
import hashlib
import os
import sys

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
    "end_to_end/learned": ("src/base/*", *("src/%s/**" % room for room in ("data", "device", "model", "gradients", "train")),
                           "tests/end_to_end/learned_test.py", "tests/end_to_end/images_test.py"),
    "house/plugin": GPU,
    "cli/gpu_check": (*GPU, "src/model/**", "src/gradients/*", "src/train/*", "scripts/gpu-check", "scripts/gpu_check/*",
                      "tests/cli/gpu_check.py", "tests/recovery/job.py"),
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


def stands(folder, name):
    return name in GUARDS and read().get((os.path.basename(os.path.realpath(folder)), name)) == digest(name)


def passed_in(path):
    """(build folder, name) of each proof that passed."""
    folder = os.path.basename(os.path.dirname(os.path.dirname(os.path.realpath(path))))
    names = [testlog.name_of(entry) for entry in testlog.entries(path) if entry["result"] == "OK"]
    return [(folder, name) for name in names if name in GUARDS]


def write(paths):
    proved = {**read(), **{key: digest(key[1]) for path in paths for key in passed_in(path)}}
    with open(PROVED, "w", encoding="ascii") as file:
        file.writelines("%s %s %s\n" % (*key, proved[key]) for key in sorted(proved) if key[1] in GUARDS)


if __name__ == "__main__":
    write(sys.argv[1:])
