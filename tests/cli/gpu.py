"""What lockstep info says of GPUs: with a plugin, with none, and with one that is wrong; and who uses them unasked.

usage: gpu.py LOCKSTEP PLUGIN, the emulated one"""
import json
import os
import re
import sys
import tempfile

import cli

PLUGIN = os.path.abspath(sys.argv[2])


def rows(**variables):
    """{name: (whether it is there, what is said)} of the devices and kinds of communication."""
    done = cli.lockstep("info", env=cli.environment(**variables))
    cli.equal((done.returncode, done.stderr), (0, b""))
    section = done.stdout.decode().split("\n\n")[1]
    found = re.findall(r"^  (\w+) +(yes|no) +(.*(?:\n {10}.*)*)", section, re.M)
    cli.equal([name for name, _, _ in found], ["cpu", "gpu", "AUTO", "RING", "NCCL"])
    return {name: (there, text) for name, there, text in found}


def gpus_are_listed():
    there, text = rows(LOCKSTEP_PLUGIN=PLUGIN, LOCKSTEP_EMULATED_GPUS="3")["gpu"]
    cli.equal(there, "yes")
    lines = [line.strip() for line in text.splitlines()]
    cli.equal([line.split()[0] for line in lines[:3]], ["gpu:0", "gpu:1", "gpu:2"])
    for part in ("emulated GPU", "4.0 GiB", "compute capability 9.0", "multiprocessors"):
        cli.contains(lines[0], part)
    for part in ("CUDA ", "driver ", "cuBLAS ", "cuDNN "):
        cli.contains(lines[3], part)


def the_nccl_that_runs_is_told():
    found = rows(LOCKSTEP_PLUGIN=PLUGIN, LOCKSTEP_EMULATED_NCCL_VERSION="23107")
    cli.equal(found["NCCL"], ("yes", "between GPUs; version 2.31.7"))
    cli.contains(found["gpu"][1], "NCCL 2.31.7")


def no_gpu_says_why():
    cli.equal(rows(LOCKSTEP_PLUGIN=PLUGIN, LOCKSTEP_EMULATED_GPUS="0")["gpu"],
              ("no", "no CUDA-capable device is detected"))
    there, text = rows(LOCKSTEP_PLUGIN="/nowhere.so")["gpu"]
    cli.equal(there, "no")
    cli.contains(text, "the GPU plugin cannot be loaded: /nowhere.so")


def nccl_says_why_not():
    there, text = rows(LOCKSTEP_PLUGIN="/nowhere.so")["NCCL"]
    cli.equal(there, "no")
    cli.contains(text, "/nowhere.so")


def a_plugin_that_is_asked_for_and_fails_is_told():
    done = cli.lockstep("train", "--dataset", "digits", "--limit", "64", "--epochs", "1",
                        env=cli.environment(LOCKSTEP_PLUGIN="/nowhere.so"))
    cli.equal(done.returncode, 0)
    cli.contains(done.stderr, b"computing on the CPU: the GPU plugin cannot be loaded: /nowhere.so")


def asking_for_a_gpu_that_is_not_there_fails():
    for devices in ("gpu", "gpu:0"):
        done = cli.lockstep("train", "--devices", devices, env=cli.environment(LOCKSTEP_PLUGIN="/nowhere.so"))
        cli.equal(done.returncode, 2)
        cli.contains(done.stderr, b"'" + devices.encode() + b"': the GPU plugin cannot be loaded")
    done = cli.lockstep("train", "--devices", "gpu:2", env=cli.environment(LOCKSTEP_PLUGIN=PLUGIN))
    cli.equal(done.returncode, 2)
    cli.contains(done.stderr, b"device 'gpu:2': the index is past the last one, gpu:1")


def timeline_of(**variables):
    """{track: its spans}, those of a step by their begin."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.json")
        done = cli.lockstep("train", "--dataset", "digits", "--limit", "128", "--batch-size", "32", "--epochs", "1", "--hidden", "32",
                            "--no-validation", "--trace", path, env=cli.environment(LOCKSTEP_PLUGIN=PLUGIN, **variables))
        cli.equal(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return {name: sorted((event for event in events if event["ph"] == "X" and event["tid"] == tid), key=lambda span: span["ts"])
            for tid, name in names.items()}


def a_timeline_has_the_times_of_the_gpu_itself():
    tracks = timeline_of(LOCKSTEP_EMULATED_GPUS="2", LOCKSTEP_DEVICES="gpu:0,gpu:1")
    cli.equal(list(tracks)[:4], ["replica 0", "replica 0's gpu:0", "replica 1", "replica 1's gpu:1"])
    whole = {span["args"]["step"]: span["dur"] for span in tracks["replica 0"] if span["name"] == "step"}
    for track in ("replica 0's gpu:0", "replica 1's gpu:1"):
        for step in (3, 4):  # the first ones run all of their ops before they tell of any
            spans = {span["name"]: span for span in tracks[track] if span["args"]["step"] == step}
            parts = [spans[name] for name in ("forward", "dense_1", "dense", "update")]
            cli.equal(set(spans), {"forward", "dense_1", "dense", "update", "backward"})
            for before, after in zip(parts, parts[1:]):
                cli.equal(before["ts"] + before["dur"] <= after["ts"] + 0.01, True, (before, after))
            cli.equal(min(span["dur"] for span in parts) > 0, True, parts)
            backward = parts[1]["dur"] + parts[2]["dur"]
            cli.equal(abs(spans["backward"]["dur"] - backward) < 0.1, True, spans)
            cli.equal(parts[-1]["ts"] + parts[-1]["dur"] - parts[0]["ts"] <= whole[step], True, spans)
    cli.equal({"queue", "wait for the device"} <= {span["name"] for span in tracks["replica 0"]}, True)


def memory_is_told():
    told = {}
    for devices in ("gpu:0", "1"):
        done = cli.lockstep("train", "--dataset", "digits", "--limit", "64", "--epochs", "1", "--no-validation", "--json",
                            "--devices", devices, env=cli.environment(LOCKSTEP_PLUGIN=PLUGIN))
        cli.equal(done.returncode, 0)
        told[devices] = json.loads(done.stdout.decode().splitlines()[-1])
        cli.equal(b"memory of gpu:0: " in done.stderr, devices == "gpu:0")
    gpu, cpu = told["gpu:0"], told["1"]
    cli.equal(0 < gpu["arena_bytes"] < gpu["planned_bytes"] <= gpu["peak_bytes"], True)
    cli.equal((0 < cpu["arena_bytes"] < cpu["planned_bytes"], cpu["peak_bytes"]), (True, None))


cli.main([gpus_are_listed, the_nccl_that_runs_is_told, no_gpu_says_why, nccl_says_why_not, a_plugin_that_is_asked_for_and_fails_is_told,
          asking_for_a_gpu_that_is_not_there_fails, memory_is_told, a_timeline_has_the_times_of_the_gpu_itself])
