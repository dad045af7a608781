"""scripts/gpu-check on the emulation of CUDA: every part runs and has its row; one that fails or hangs ends no other.

usage: gpu_check.py LOCKSTEP"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cli

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts/gpu-check"
BUILD = Path(cli.LOCKSTEP).parent
sys.path.insert(0, str(SCRIPT.parent))
from gpu_check import machine, tests, training, workers  # noqa: E402
# In compute-sanitizer's place: notes how it was called, and runs what it was given, or does what it is told.
STAND_IN = """#!/bin/sh
echo "$*" >> "$0.calls"
while [ "${1#--}" != "$1" ]; do shift 2; done
eval "$STAND_IN"
"""


def rows(parts, seconds=200, **variables):
    """{part: its row}, and how compute-sanitizer was called."""
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder) / "compute-sanitizer"
        tool.write_text(STAND_IN)
        tool.chmod(0o755)
        own = cli.environment(PATH=f"{folder}:{os.environ['PATH']}", **{"STAND_IN": '"$@"', **variables})
        done = subprocess.run([sys.executable, SCRIPT, "--emulated", "--build", BUILD, "--parts", parts, "--seconds", str(seconds),
                               "--json"], env=own, capture_output=True, text=True, timeout=2 * seconds, check=False)
        found = {row["part"]: row for row in json.loads(done.stdout.splitlines()[-1])}
        cli.equal(list(found), parts.split(","), done.stderr)
        cli.equal(done.returncode, 0 if all(row["result"] == "ok" for row in found.values()) else 1, done.stderr)
        calls = Path(f"{tool}.calls")
        return found, calls.read_text().splitlines() if calls.exists() else []


def all_good(parts):
    found, calls = rows(parts)
    cli.equal([row for row in found.values() if row["result"] != "ok"], [])
    return found, calls


def ops_and_training_agree_with_the_cpu():
    found, _ = all_good("info,tests,gradients,losses,precision")
    cli.contains(found["info"]["detail"], "emulated GPU")
    cli.contains(found["tests"]["detail"], " passed, 0 failed")
    for part in ("gradients", "losses"):
        cli.contains(found[part]["detail"], "lenet ")
    cli.contains(found["precision"]["detail"], "mixed_bfloat16 ")


def a_program_has_what_it_needs_or_half_of_what_is_left():
    ranks, other = "device/device_ranks_test", "device/device_loss_test"
    cli.equal([tests.limit_of(ranks, left) for left in (100, 26, 13)], [50, 24, 13])
    cli.equal([tests.limit_of(other, left) for left in (100, 26)], [50, 13])


def is_good(cpus, gpu):
    try:
        return training.judge_losses("lenet", cpus, gpu)
    except machine.Bad:
        return None


def losses_are_judged_by_how_far_cpus_are_apart():
    cpus = [2.0, 1.0, 0.5], [2.0, 1.0, 0.505], [2.0, 1.01, 0.5]
    cli.equal(is_good(cpus, [2.0, 1.0, 0.53]), "lenet 3.0e-02 (CPUs 1.0e-02)")
    cli.equal(is_good(cpus, [2.0, 1.0, 0.55]), None)
    cli.equal(is_good(cpus, [2.001, 1.0, 0.5]), None, "the first loss is forward's alone")
    cli.equal(is_good([[2.0], [2.0]], [2.000006]), "lenet 3.0e-06 (CPUs 0.0e+00)")
    cli.equal(is_good([[2.0], [2.0]], [2.00002]), None)


def workers_stay_equal_and_one_may_be_lost():
    found, _ = all_good("workers,kill")
    cli.contains(found["workers"]["detail"], "nccl x2")
    cli.contains(found["kill"]["detail"], "same weights")
    cli.equal("without its name" in found["kill"]["detail"], False, found["kill"]["detail"])


def a_loss_is_read_in_the_words_of_nccl_and_of_the_cluster():
    for words in ("gpu:0: NCCL, between the GPUs: remote process exited or there was a network error",
                  "worker:1 (rank 1, 127.0.0.1:7001) was lost: its connection was closed"):
        line = f"lockstep: worker:0: warning: epoch 1, step 8: replica 0: {words}; waiting up to 60 s for it to come back"
        cli.contains(re.search(workers.GIVEN_UP, line)[1], words)


def speed_is_measured_without_torch():
    found, _ = all_good("speed")
    cli.contains(found["speed"]["detail"], "mobilenet_v2 float32: ")


def the_sanitizer_is_asked_and_believed():
    _, calls = all_good("sanitizer")
    memcheck = f"--tool memcheck --error-exitcode 99 --report-api-errors no {BUILD}/tests/device/device_loss_test"
    racecheck = f"--tool racecheck --error-exitcode 99 {BUILD}/tests/device/device_loss_test"
    cli.equal({call for call in calls if "loss" in call}, {memcheck, racecheck})
    found, _ = rows("sanitizer,info", STAND_IN="exit 99")
    cli.equal([row["result"] for row in found.values()], ["FAILED", "ok"])
    cli.contains(found["sanitizer"]["detail"], "exit status 99")


def what_hangs_is_ended_at_its_share():
    found, _ = rows("sanitizer,info", seconds=30, STAND_IN="sleep 60")
    cli.equal([row["result"] for row in found.values()], ["FAILED", "ok"])
    cli.contains(found["sanitizer"]["detail"], "it did not end in its time")


cli.main([ops_and_training_agree_with_the_cpu, a_program_has_what_it_needs_or_half_of_what_is_left,
          losses_are_judged_by_how_far_cpus_are_apart, workers_stay_equal_and_one_may_be_lost,
          a_loss_is_read_in_the_words_of_nccl_and_of_the_cluster, speed_is_measured_without_torch,
          the_sanitizer_is_asked_and_believed, what_hangs_is_ended_at_its_share])
