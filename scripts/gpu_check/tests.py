"""Tests of ops, of networks and of collectives on the GPU, plainly and under compute-sanitizer."""
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

from run import say

from .machine import Bad, need

DEVICE = ["attention", "decode", "ranks", "device", "queue", "elements", "loss", "optimizer", "report", "dense", "products", "batch_norm", "half",
          "layer_norm", "recurrent", "against_cpu", "image", "group", "peer", "conformance"]
PROGRAMS = [*(f"device/device_{subject}_test" for subject in DEVICE), "model/model_gradient_test", "model/model_keras_test",
            "model/model_attention_test", "model/model_recurrent_test", "model/model_embedding_test", "model/model_frozen_test",
            "model/model_tied_dense_test", "train/train_generate_cache_test", "train/train_precision_test", "train/train_recompute_test",
            "train/train_replicas_test"]
# Seconds that a program has at least, where they are left: twice what it needs on a GPU with 16 processors, where that is
# known. Others have half of what is left, so that one that hangs leaves time for those behind it.
LEAST = {"device/device_ranks_test": 24, "device/device_conformance_test": 40}
# One process a program, with one context on the GPU; queue sets its own environment and ends processes on purpose.
FORKED = {"device/device_queue_test"}
AT_ONCE = 4  # programs, which compute with the CPU most of the time
MEMCHECK = ["elements", "loss", "optimizer", "report", "dense", "batch_norm", "layer_norm", "recurrent", "image"]
RACECHECK = ["loss", "optimizer", "batch_norm", "layer_norm", "image"]


def limit_of(name, left):
    return max(left / 2, min(left, LEAST.get(name, 0)))


def run_tests(machine, name, before=()):
    """How many tests of a program passed, and a line for each of the others; it speaks TAP. An exit status of its own,
    as compute-sanitizer has, is a failure too."""
    own = {**machine.own, "LOCKSTEP_TEST_DEVICE": "gpu:0", "CK_FORK": "yes" if name in FORKED else "no",
           "CK_TIMEOUT_MULTIPLIER": "10"}
    code, text, last = machine.run_to_end([*before, machine.place / "tests" / name], own, limit_of(name, machine.left()))
    good, bad = len(re.findall(r"^ok ", text, re.M)), re.findall(r"^not ok .*", text, re.M)
    if code is None:
        bad.append("it did not end in its time")
    elif code and not bad:
        bad.append(f"exit status {code}: {(text + last)[-400:]}")
    elif not good and not bad:
        bad.append(f"no result: {(text + last)[-400:]}")
    return good, [f"{name.rpartition('/')[2]}: {line}" for line in bad]


def chosen(machine, subjects):
    return [subject for subject in subjects if subject in (machine.sizes.subjects or subjects)]


def summed(machine, runs):
    """Of [(what comes before, program, a name for it)]: the number of tests, all good."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda run: run_tests(machine, run[1], run[0]), runs))
    good = sum(passed for passed, _ in results)
    bad = [run[2] + line for run, (_, failed) in zip(runs, results) for line in failed]
    for line in bad:
        say(f"  {line}")
    first = bad[0].replace("\n", " ")[:200] if bad else ""
    need(not bad, f"{good} passed, {len(bad)} failed; first: {first}")
    return good


def check_info(machine):
    text = machine.run(machine.lockstep("info"))
    lines = [" ".join(line.split()) for line in text.splitlines() if re.match(r"\s*(gpu|NCCL)\s", line)]
    need(len(lines) == 2 and all(line.split()[1] == "yes" for line in lines), f"lockstep info: {'; '.join(lines)}")
    return "; ".join(lines)


def check_tests(machine):
    small = [f"device/device_{subject}_test" for subject in machine.sizes.subjects]
    names = [name for name in PROGRAMS if not small or name in small]
    return f"{summed(machine, [((), name, '') for name in names])} passed, 0 failed"


def check_sanitizer(machine):
    """Errors that tests provoke in CUDA's interface are none."""
    runs, program = [], shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    if not program:
        raise Bad("compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin")
    for tool, subjects in (("memcheck", MEMCHECK), ("racecheck", RACECHECK)):
        before = [program, "--tool", tool, "--error-exitcode", "99"]
        before += ["--report-api-errors", "no"] if tool == "memcheck" else []
        runs += [(before, f"device/device_{subject}_test", f"{tool}: ") for subject in chosen(machine, subjects)]
    return f"memcheck and racecheck clean over {summed(machine, runs)} tests"
