#!/usr/bin/env python3
"""Two workers whose command lines or settings differ in one thing: each option of `lockstep train` and each setting is refused by
name on both ranks, or changes no bit. What there is comes from the command itself: a new option without a row fails.

usage: options.py [--seed N] [--rows N] [NAME...]
  --rows N  so many rows, drawn from the seed, which is printed (default 6; all with LOCKSTEP_TEST_FULL=1, or 0)"""
import argparse
import atexit
import functools
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "end_to_end"))
from cluster import LOCKSTEP, Cluster, last_json  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="lockstep-options-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
WEIGHTS = os.path.join(FOLDER, "weights.npz")
DATA = os.path.join(FOLDER, "records")
NUMBERS = os.path.join(FOLDER, "numbers")
CONFIG = os.path.join(FOLDER, "options.yaml")
# three steps, and validation: a moment
BASE = ("--limit", "96", "--epochs", "1", "--batch-size", "32", "--hidden", "8", "--json", "--verbose", "-1")
SETTINGS = {"LOCKSTEP_JOIN_TIMEOUT": "20", "LOCKSTEP_COLLECTIVE_TIMEOUT": "20", "LOCKSTEP_LOG": "error"}
SECONDS = 12  # shorter than the limits above: a difference is told, not waited for

ADAM, RMSPROP = ("--optimizer", "adam"), ("--optimizer", "rmsprop")
TENSORFLOW, COSINE = ("--division", "tensorflow"), ("--schedule", "cosine", "--decay-steps", "3")
EXPONENTIAL = ("--schedule", "exponential", "--decay-steps", "2", "--decay-rate", "0.5")
SHAPES = ("--dataset", "shapes", "--model", "mobilenet_v2", "--image-size", "32")
CHECKPOINT, BOARD, CSV = (("--checkpoint", FOLDER), ("--tensorboard", FOLDER + "/board"), ("--csv", FOLDER + "/log.csv"))
STOPPING, PLATEAU = ("--early-stopping", "2"), ("--reduce-on-plateau", "2")
HARMLESS = None


def row(says, mine=(), both=(), other=(), index=None):
    """Beside what both have, one worker (index, or any) has the option with mine, the other what is in other; both say so, or
    nothing changes."""
    return says, tuple(mine), tuple(both), tuple(other), index


TABLE = ("--dataset", FOLDER + "/table.csv", "--validation-split", "0.25")
TOKENS = ("--dataset", FOLDER + "/table.csv", "--tokens", "bytes", "--model", "embedding", "--no-validation", "--context")
GPT = (*TOKENS, "4", "--model", "gpt", "--layers", "1", "--width", "8")
LLAMA = (*TOKENS, "4", "--model", "llama", "--layers", "1", "--width", "8")
LOCAL = ("--strategy", "local-sgd", "--sync-every", "2")
OPTIONS = {
    "--model": row("model", ["lenet"]),
    "--alpha": row("model", ["0.5"], SHAPES),
    "--norm-momentum": row("model", ["0.9"], SHAPES),
    "--summary": row(HARMLESS),
    "--config": row(HARMLESS, [CONFIG]),
    "--weights": row("initial_weights", [WEIGHTS]),
    "--skip-mismatch": row(HARMLESS, [], ["--weights", WEIGHTS]),
    "--freeze": row("model", ["dense"]),
    "--train-only": row("model", ["dense_1"]),
    "--sync-batch-norm": row("model", [], SHAPES),
    "--fused-batch-norm": row("model", [], SHAPES),
    "--hidden": row("model", ["16"]),
    "--embedding": row("model", ["20000x8"], ["--model", "embedding"]),
    "--layers": row("model", ["2"], GPT),
    "--heads": row("model", ["2"], GPT),
    "--kv-heads": row("model", ["2"], LLAMA),
    "--width": row("model", ["4"], GPT),
    "--dropout": row("model", ["0.5"], GPT),
    "--dataset": row("dataset", ["shapes"]),
    "--limit": row("examples", ["64"]),
    "--no-validation": row("validation_data"),
    "--epochs": row("epochs", ["2"]),
    "--batch-size": row("batch_size", ["16"]),
    "--steps-per-epoch": row("steps_per_epoch", ["2"]),
    "--seed": row("seed", ["1"]),
    "--shuffle": row("shuffle", ["never"]),
    "--drop-remainder": row("drop_remainder"),
    "--checkpoint": row("checkpoint", [FOLDER]),
    "--checkpoint-steps": row(HARMLESS, ["1"], CHECKPOINT),
    "--checkpoint-keep": row(HARMLESS, ["1"], CHECKPOINT),
    "--checkpoint-retain": row(HARMLESS, [], CHECKPOINT),
    "--checkpoint-override": row("checkpoint_overrides", ["learning_rate"], CHECKPOINT),
    "--checkpoint-errors": row(HARMLESS, ["warn"], CHECKPOINT),
    "--devices": row(HARMLESS, ["cpu:0"]),
    "--communication": row("communication", ["CollectiveCommunication.RING"]),
    "--compression": row("compression", ["fp16"]),
    "--transport": row(HARMLESS, ["tcp"]),
    "--cross-device-ops": row(HARMLESS, ["HierarchicalCopyAllReduce"]),
    "--bytes-per-pack": row("bytes_per_pack", ["4096"]),
    "--replicas": row("num_replicas_in_sync|replicas", ["2"]),
    "--shard": row("shard", ["gradients"]),
    "--shard-copies": row("shard_copies", ["1"], ["--shard", "optimizer"]),
    "--stages": row("stages", ["2"]),
    "--micro-batches": row("gradient_accumulation_steps|batch_size", ["2"]),
    "--threads-per-replica": row("threads_per_replica", ["2"]),
    "--timeout": row(HARMLESS, ["19"]),
    "--division": row("division", ["tensorflow"]),
    "--auto-shard": row("auto_shard|the data|sample_sha256", ["off"], TENSORFLOW),
    "--shard-hint": row("shard_hint", ["rows"], TENSORFLOW + ("--auto-shard", "hint"), ["--shard-hint", "batches"]),
    "--json": row(HARMLESS),
    "--trace": row(HARMLESS, [FOLDER + "/trace.json"]),
    "--verbose": row(HARMLESS, ["2"]),
    "--target": row("shape|classes", ["kind"], TABLE, ["--target", "whole"]),
    "--target-type": row("classes|loss|model", ["number"], [*TABLE, "--target", "whole"]),
    "--without": row("shape|model", ["kind"], [*TABLE, "--target", "whole"]),
    "--separator": row(HARMLESS, [","], [*TABLE, "--target", "whole"]),
    "--tokens": row("classes|model|sample_sha256|the data|network", ["chars"], [*TOKENS, "4"]),
    "--context": row("shape|the data|examples", ["3"], [*TOKENS, "4"]),
    "--stride": row("examples|sample_sha256|the data", ["2"], [*TOKENS, "4"]),
    "--vocabulary": row("classes|model", ["300"], [*TOKENS, "4"]),
    "--image-size": row("shape", ["20"], ["--dataset", "shapes"]),
    "--image-channels": row(HARMLESS, ["1"], ["--dataset", DATA]),
    "--scaled-decode": row(HARMLESS),
    "--skip-damaged": row(HARMLESS),
    "--interleave": row("order|interleave|sample_sha256|the data", ["2"], ["--dataset", DATA]),
    "--block-length": row("order|block_length|sample_sha256|the data", ["2"], ["--dataset", DATA, "--interleave", "2"]),
    "--skip": row("examples", ["5"]),
    "--validation-split": row("examples|validation_split", ["0.5"]),
    "--data-workers": row(HARMLESS, ["2"]),
    "--augment": row("maps", ["flip"]),
    "--symmetric": row("maps"),
    "--cache": row(HARMLESS),
    "--shuffle-buffer": row("shuffle_buffer", ["10"]),
    "--prefetch": row(HARMLESS, ["1"]),
    "--optimizer": row("optimizer", ["adam"]),
    "--learning-rate": row("optimizer", ["0.01"]),
    "--momentum": row("optimizer", ["0.5"]),
    "--nesterov": row("optimizer", [], ["--momentum", "0.5"]),
    "--momentum-correction": row("optimizer", [], ["--momentum", "0.5", "--warmup-steps", "2"]),
    "--centered": row("optimizer", [], RMSPROP),
    "--beta-1": row("optimizer", ["0.8"], ADAM),
    "--beta-2": row("optimizer", ["0.8"], ADAM),
    "--epsilon": row("optimizer", ["0.1"], ADAM),
    "--torch-epsilon": row("optimizer", [], ADAM),
    "--rho": row("optimizer", ["0.8"], RMSPROP),
    "--weight-decay": row("optimizer", ["0.1"]),
    "--exclude-from-weight-decay": row("optimizer", ["bias"], ["--weight-decay", "0.1"]),
    "--clip-value": row("optimizer", ["0.001"]),
    "--clip-norm": row("optimizer", ["0.001"]),
    "--global-clip-norm": row("optimizer", ["0.001"]),
    "--accumulate": row("optimizer", ["2"]),
    "--schedule": row("optimizer", EXPONENTIAL[1:]),
    "--decay-steps": row("optimizer", ["1"], EXPONENTIAL),
    "--decay-rate": row("optimizer", ["0.2"], EXPONENTIAL),
    "--staircase": row("optimizer", [], EXPONENTIAL),
    "--decay-to": row("optimizer", ["0.5"], COSINE),
    "--pieces": row("optimizer", ["1:0.1"], ["--schedule", "piecewise"], ["--pieces", "1:0.2"]),
    "--warmup-steps": row("optimizer", ["2"]),
    "--warmup-from": row("optimizer", ["0.05"], ["--warmup-steps", "2"]),
    "--loss": row("loss", ["categorical_crossentropy"]),
    "--label-smoothing": row("label_smoothing", ["0.1"]),
    "--class-weight": row("class_weight", ["0:2"]),
    "--huber-delta": row("huber_delta|delta", ["2"], ["--dataset", NUMBERS, "--loss", "huber"]),
    "--kernel-l1": row("model", ["0.1"]),
    "--kernel-l2": row("model", ["0.1"]),
    "--metrics": row("metrics", ["top_k=3"]),
    "--weighted-metrics": row("metrics", ["top_k=3"]),
    "--precision": row("precision", ["tf32"]),
    "--nondeterministic-ops": row("nondeterministic_ops"),
    "--recompute": row(HARMLESS, ["none"]),
    "--watch-timeout": row(HARMLESS, ["5"], CHECKPOINT),
    "--tensorboard": row("callback", [FOLDER + "/board"]),
    "--tensorboard-histograms": row(HARMLESS, ["1"], BOARD),
    "--tensorboard-gradients": row(HARMLESS, [], BOARD + ("--tensorboard-histograms", "1")),
    "--tensorboard-images": row(HARMLESS, [], BOARD + ("--tensorboard-histograms", "1")),
    "--tensorboard-no-graph": row(HARMLESS, [], BOARD),
    "--tensorboard-steps": row(HARMLESS, ["1"], BOARD),
    "--csv": row("callback", [FOLDER + "/log.csv"]),
    "--csv-append": row(HARMLESS, [], CSV),
    "--log-errors": row(HARMLESS, ["warn"], CSV),
    "--early-stopping": row("callback", ["2"]),
    "--monitor": row("callback", ["loss"], STOPPING),
    "--min-delta": row("callback", ["0.1"], STOPPING),
    "--restore-best": row("callback", [], STOPPING),
    "--reduce-on-plateau": row("callback", ["2"]),
    "--plateau-factor": row("callback", ["0.5"], PLATEAU),
    "--min-learning-rate": row("callback", ["0.01"], PLATEAU),
    "--save-best": row("callback", [FOLDER + "/best.npz"]),
    "--save-each": row("callback", [FOLDER + "/each.npz"]),
    "--terminate-on-nan": row("callback"),
    "--sync-every": row("sync_every", ["2"], LOCAL[:2], ["--sync-every", "3"]),
    "--outer-learning-rate": row("outer_learning_rate", ["0.5"], LOCAL),
    "--outer-momentum": row("outer_momentum", ["0.5"], [*LOCAL, "--outer-learning-rate", "1"]),
    "--local-moments": row("local_moments", [], LOCAL),
    "--fragments": row("fragments", ["2"], LOCAL),
    "--fragment-delay": row("fragment_delay", ["1"], LOCAL),
    "--fragment-alpha": row("fragment_alpha", ["0.5"], LOCAL),
}
# They change the bits of several replicas.
BITS_OF_SEVERAL = ("--sync-batch-norm",)
# What ends only one of the two, or is no option of a training.
ELSEWHERE = {
    "--strategy": "the other workers wait for who trains alone: tests/cluster/missing_test.c",
    "--consistency": "it goes with that strategy: tests/end_to_end/delayed_test.py",
    "--delay": "it goes with that strategy: tests/end_to_end/delayed_test.py",
    "--staleness": "it goes with --consistency async: tests/end_to_end/async_test.py",
    "--on-stale": "it goes with --consistency async: tests/end_to_end/async_test.py",
    "--max-staleness": "it goes with --consistency async: tests/end_to_end/async_test.py",
    "--ps-replicas": "it goes with that strategy: tests/end_to_end/store_test.py",
    "--sparse": "it goes with that strategy: tests/end_to_end/sparse_test.py",
    "--hybrid": "it goes with that strategy: tests/end_to_end/store_test.py",
    "--help": "trains nothing",
    "--print-config": "trains nothing",
    "--dry-run": "trains nothing",
}
SETTING_ROWS = {
    "LOCKSTEP_JOIN_TIMEOUT": row(HARMLESS, ["19"]),
    "LOCKSTEP_COLLECTIVE_TIMEOUT": row(HARMLESS, ["19"]),
    "LOCKSTEP_DATA_TIMEOUT": row(HARMLESS, ["19"]),
    "LOCKSTEP_EXIT_TIMEOUT": row(HARMLESS, ["19"]),
    "LOCKSTEP_REJOIN_TIMEOUT": row(HARMLESS, ["3"]),
    "LOCKSTEP_ELASTIC": row("LOCKSTEP_ELASTIC", ["1:2"]),
    "LOCKSTEP_ELASTIC_START": row(HARMLESS, ["2"]),
    "LOCKSTEP_ADDRESSES": row(HARMLESS, ["/dev/null"]),
    "LOCKSTEP_REPORT_INTERVAL": row(HARMLESS, ["1"]),
    "LOCKSTEP_HEARTBEAT_INTERVAL": row(HARMLESS, ["0.3"]),
    "LOCKSTEP_HEARTBEAT_LIMIT": row(HARMLESS, ["5"]),
    "LOCKSTEP_FIRST_BUCKET": row("first_bucket", ["4096"]),
    "LOCKSTEP_BUCKET": row("bucket", ["8192"]),
    "LOCKSTEP_SEGMENT": row(HARMLESS, ["65536"]),
    "LOCKSTEP_DIRECT_LIMIT": row(HARMLESS, ["1"]),
    "LOCKSTEP_MAIL_LIMIT": row(HARMLESS, ["1M"]),
    "LOCKSTEP_MEMORY_LIMIT": row(HARMLESS, ["1G"]),
    "LOCKSTEP_CONTROL_WINDOW": row(HARMLESS, ["1"]),
    "LOCKSTEP_PS": row("LOCKSTEP_PS", ["off"]),
    "LOCKSTEP_RECORD": row(HARMLESS, [FOLDER + "/order"]),
    "LOCKSTEP_REPLAY": row(HARMLESS, [FOLDER + "/order"]),
    "LOCKSTEP_PS_WAIT": row(HARMLESS, ["3"]),
    "LOCKSTEP_STOP_GRACE": row(HARMLESS, ["3"]),
    "LOCKSTEP_LOG": row(HARMLESS, ["debug"]),
    "LOCKSTEP_LOG_FORMAT": row(HARMLESS, ["json"]),
    "LOCKSTEP_TRANSPORT": row("LOCKSTEP_TRANSPORT", ["tcp"], other=["shm"]),
    "LOCKSTEP_ALGORITHM": row("LOCKSTEP_ALGORITHM|algorithm", ["exchange"]),
    "LOCKSTEP_DEVICES": row(HARMLESS, ["cpu:0"]),
    "LOCKSTEP_PLUGIN": row(HARMLESS, ["/nowhere.so"]),
    "LOCKSTEP_DEVICE_TIMEOUT": row(HARMLESS, ["5"]),
    "LOCKSTEP_CUDA_SYNC": row(HARMLESS, ["1"]),
    "LOCKSTEP_HTTP": row(HARMLESS, ["127.0.0.1:0"]),
    "LOCKSTEP_METRICS_FILE": row(HARMLESS, [FOLDER + "/lockstep.prom"]),
    "LOCKSTEP_TRACE": row(HARMLESS, [FOLDER + "/setting.json"]),
    "LOCKSTEP_FLIGHT_RECORD": row(HARMLESS, ["16"]),
    "LOCKSTEP_COLUMNS": row(HARMLESS, ["60"]),
    "LOCKSTEP_REQUIRE_CLUSTER": row(HARMLESS, ["1"]),
    "LOCKSTEP_CLUSTER": row(HARMLESS, ["tf_config"]),
    "LOCKSTEP_RENDEZVOUS": row(HARMLESS, ["127.0.0.1:61440"]),
    "LOCKSTEP_NUM_WORKERS": row(HARMLESS, ["2"]),
    "LOCKSTEP_SUBDOMAIN": row(HARMLESS, ["service"]),
    "LOCKSTEP_RUN_ID": row(HARMLESS, ["one"], other=["two"]),
    "LOCKSTEP_RESTART_COUNT": row(HARMLESS, ["1"]),
    "LOCKSTEP_MAX_CLASSES": row(HARMLESS, ["100"]),
    "LOCKSTEP_FLIGHT_RECORD_FOLDER": row(HARMLESS, [FOLDER]),
}
SETTINGS_ELSEWHERE = {
    "LOCKSTEP_TOKEN": "tests/cluster/auth_token_test.c", "LOCKSTEP_TOKEN_FILE": "tests/cluster/auth_token_test.c",
    "LOCKSTEP_TLS_CERTIFICATE": "tests/cluster/auth_tls_test.c", "LOCKSTEP_TLS_KEY": "tests/cluster/auth_tls_test.c",
    "LOCKSTEP_TLS_CA": "tests/cluster/auth_tls_test.c",
}


def said(*command):
    return subprocess.run([LOCKSTEP, *command], capture_output=True, text=True, check=True).stdout


def prepare():
    """Weights to begin with, and a folder of records of which there is more than one file."""
    said("train", *BASE, "--save-each", WEIGHTS)
    os.makedirs(DATA)
    with open(CONFIG, "w", encoding="ascii") as file:
        file.write("prefetch: 1\ncache: true\n")
    write_numbers()
    with open(FOLDER + "/table.csv", "w", encoding="ascii") as file:
        file.writelines(["size,kind,whole\n", *(f"{i % 7 / 7},{'abc'[i % 3]},{i % 4}\n" for i in range(96))])
    said("convert", "--dataset", "digits", "--limit", "96", "--shards", "4", "--to", "tfrecord", "--output", DATA)


def command(*parts):
    """lockstep train with these options, of which a later one takes the place of an earlier one of its name."""
    options = {}
    for word in (*BASE, *parts):
        if word.startswith("--"):
            name = word
            options[name] = []
        else:
            options[name].append(word)
    if options.get("--model", ["mlp"])[0] not in ("mlp", "embedding", "lstm", "gru") and "--hidden" not in parts:
        options.pop("--hidden")
    return [LOCKSTEP, "train", *(word for name, values in options.items() for word in (name, *values))]


def write_npy(name, shape, values):
    """NumPy's format, of float32."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head = head.ljust(117) + "\n"
    with open(os.path.join(NUMBERS, name), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}f", *values))


def write_numbers():
    """Targets that are numbers."""
    os.makedirs(NUMBERS)
    for split, count in (("train", 96), ("test", 32)):
        write_npy(f"x_{split}.npy", (count, 3), [(i % 7) / 7 for i in range(3 * count)])
        write_npy(f"y_{split}.npy", (count,), [(i % 5) / 5 for i in range(count)])


def start(commands, variables):
    cluster = Cluster(2, None, SETTINGS)
    plain = dict(cluster.environment)
    for index in (0, 1):
        cluster.environment = {**plain, **variables[index]}
        cluster.start(index, command=command(*commands[index]))
    begun = time.monotonic()
    results = cluster.finish(60)
    return [results[("worker", index)] for index in (0, 1)], time.monotonic() - begun


@functools.lru_cache(maxsize=None)
def digest(both):
    """Of two workers that are alike."""
    results, _ = start((both, both), ({}, {}))
    if [status for status, _, _ in results] != [0, 0]:
        raise AssertionError(f"workers that are alike: {results}")
    return last_json(results[0][1])["weights_sha256"]


def judge(name, says, both, results, seconds):
    """What is wrong, or ""."""
    statuses = [status for status, _, _ in results]
    if seconds > SECONDS:
        return f"took {seconds:.1f} s, as long as a limit"
    if says is HARMLESS:
        if statuses != [0, 0]:
            return f"is harmless, but exit statuses are {statuses}"
        got = last_json(results[0][1])["weights_sha256"]
        return "" if got == digest(both) else f"changes the bits: {got}, not {digest(both)}"
    errors = [next((line for line in err.splitlines() if "error: " in line), "") for _, _, err in results]
    named = all(any(word in line for word in says.split("|")) for line in errors)
    return "" if statuses == [2, 2] and named else f"does not name '{says}' on both ranks: {statuses}"


def try_row(name, one, index):
    """With index having what the other has not."""
    says, mine, both, other, fixed = one
    index = index if fixed is None else fixed
    extra = ([], [])
    variables = ({}, {})
    if name.startswith("--"):
        extra[index].extend([name, *mine])
        extra[1 - index].extend(other)
    else:
        variables[index][name] = mine[0]
        variables[1 - index].update({name: other[0]} if other else {})
    results, seconds = start([(*both, *added) for added in extra], variables)
    fault = judge(name, says, both, results, seconds)
    return "\n".join([fault, *(err for _, _, err in results)]) if fault else ""


def without_row():
    options = set(said("train", "--list-options").split())
    settings = {one["name"] for one in json.loads(said("settings", "--json"))["settings"]}
    for there, rows, elsewhere in ((options, OPTIONS, ELSEWHERE), (settings, SETTING_ROWS, SETTINGS_ELSEWHERE)):
        yield from (f"{name} has no row" for name in sorted(there - set(rows) - set(elsewhere)))
        yield from (f"{name} has a row, and is no more" for name in sorted((set(rows) | set(elsewhere)) - there))


def alone(*parts):
    """One process with these options: its exit status, what it has trained, and its errors."""
    done = subprocess.run(command(*parts), capture_output=True, text=True, check=False)
    trained = last_json(done.stdout) if done.returncode == 0 and "--dry-run" not in parts else {}
    return done.returncode, {name: value for name, value in trained.items() if name != "samples_per_second"}, done.stderr


def without_need():
    """What a row has beside its option is needed: without it the option is refused."""
    for name, (_, mine, both, _, _) in OPTIONS.items():
        status, _, error = alone(name, *mine, "--dry-run") if both else (2, {}, "")
        if status != 2:
            yield f"{name} alone is not refused, but ends with {status}: {error}"


EFFECTS = ("optimizer", "model", "label_smoothing", "huber_delta|delta", "class_weight")


def combinations():
    """Options that decide what training computes, beside each word of those that decide which there are."""
    for chosen in ("--optimizer", "--schedule", "--loss", "--model"):
        for word in said("train", "--list-options", chosen).split():
            beside = {"exponential": EXPONENTIAL, "cosine": COSINE, "piecewise": ("--schedule", "piecewise", "--pieces", "1:0.2"),
                      "mobilenet_v2": (*SHAPES, "--alpha", "0.25")}.get(word, (chosen, word))
            for name, (says, mine, both, _, _) in OPTIONS.items():
                images = word in ("mobilenet_v2", "resnet50") and says != "model"
                if says in EFFECTS and name not in beside and name != "--model" and not images and word != "resnet50":
                    yield beside, (name, *mine)
                    yield (*both, *beside), (name, *mine)


def without_effect(draw, count):
    """An option is refused or changes what is trained."""
    pairs = list(dict.fromkeys(combinations()))
    for beside, mine in draw.sample(pairs, count):
        status, trained, error = alone(*beside, *mine)
        if status not in (0, 2):
            yield f"{beside} {mine} end with {status}: {error}"
        elif status == 0 and mine[0] not in BITS_OF_SEVERAL and trained == alone(*beside)[1]:
            yield f"{mine} has no effect with {beside}, and is not refused"


def read_back(draw):
    """Options that are drawn, as a file: YAML's own reader finds them there, and --config prints the same."""
    path = os.path.join(FOLDER, "printed.yaml")
    parts = [part for name in draw.sample(sorted(OPTIONS), draw.randrange(1, 6)) if name != "--config"
             for part in (*OPTIONS[name][2], name, *OPTIONS[name][1])]
    line = command(*parts)
    first = subprocess.run([*line, "--print-config"], capture_output=True, text=True, check=False)
    if first.returncode:  # they do not go together
        return "" if first.returncode == 2 and "needs" in first.stderr else f"{line}: {first.stderr}"
    given, name = {}, ""
    for word in line[2:]:
        name = word[2:] if word.startswith("--") else name
        given[name] = True if word.startswith("--") else word
    found = yaml.safe_load(first.stdout)
    if {name: type(given.get(name, ""))(value) for name, value in found.items()} != given:
        return f"{line}: {first.stdout}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(first.stdout)
    return "" if said("train", "--config", path, "--print-config") == first.stdout else f"{line}: it reads another"


def main():
    full = os.environ.get("LOCKSTEP_TEST_FULL", "0") not in ("", "0")
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000)
    parser.add_argument("--rows", type=int, default=0 if full else 6)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    rows = {**OPTIONS, **SETTING_ROWS}
    draw = random.Random(given.seed)
    names = given.names or sorted(rows)
    if given.rows and not given.names:
        names = draw.sample(names, given.rows)
    print(f"# --seed {given.seed}, {len(names)} rows\n1..{len(names) + 4}", flush=True)
    faults = list(without_row())
    print(f"{'not ' if faults else ''}ok 1 - every option and setting has its row", *[f"# {fault}" for fault in faults], sep="\n")
    prepare()
    failed = bool(faults)
    for number, (what, faults) in enumerate((("options are written as a file and read back", filter(None, (read_back(draw) for _ in range(20)))),
                                             ("an option without what it needs is refused", without_need()),
                                             ("an option is refused or has an effect", without_effect(draw, 200 if full else 10))), 2):
        faults = list(faults)
        failed = failed or bool(faults)
        print(f"{'not ' if faults else ''}ok {number} - {what}", *[f"# {fault}" for fault in faults], sep="\n", flush=True)
    for number, name in enumerate(names, 5):
        fault = try_row(name, rows[name], draw.randrange(2))
        failed = failed or bool(fault)
        print(f"{'not ' if fault else ''}ok {number} - {name}", flush=True)
        if fault:
            print("# " + fault.strip().replace("\n", "\n# "), flush=True)
    return 1 if failed else 0


sys.exit(main())
