"""Who may include whom: the table of the design, and one home for each third-party header."""
import os
import re

import house

PUBLIC = "lockstep/lockstep.h"
TOOLS = "lockstep/tools.h"

# room -> rooms whose headers its files may include, its own apart; rooms stand below those that include them
ROOMS = {
    "base": [],
    "device": ["base"],
    "collective": ["device", "base"],
    "model": ["device", "base"],
    "data": ["base"],
    "observe": ["base"],
    "checkpoint": ["base"],
    "weights": ["model", "device", "data", "checkpoint", "base"],
    "resolver": ["base"],
    "cluster": ["resolver", "base"],
    "shard": ["collective", "device", "base"],
    "store": ["shard", "collective", "device", "base"],
    "runtime": ["store", "cluster", "resolver", "collective", "observe", "device", "base"],
    "strategy": ["runtime", "cluster", "collective", "data", "observe", "device", "base"],
    "gradients": ["strategy", "runtime", "store", "collective", "device", "observe", "base"],
    "train": ["gradients", "strategy", "runtime", "store", "shard", "cluster", "collective", "model", "data", "observe", "checkpoint",
              "weights", "device", "base"],
    "sync": ["train", "gradients", "strategy", "runtime", "store", "shard", "collective", "base"],
    "callbacks": ["train", "model", "data", "observe", "weights", "base"],
    "tools": ["sync", "train", "store", "shard", "model", "data", "gradients", "strategy", "runtime", "cluster", "resolver", "collective", "observe", "checkpoint",
              "weights", "device", "base"],
    "launch": [],
    "cli": ["launch"],
}
# single headers of another room
HEADERS = {"cluster": ["collective/link/link_source.h", "collective/link/transport.h", "collective/link/abort.h", "collective/link/shm.h",
                       "collective/link/tcp.h"]}
# what the command shares with the tests
ORACLE = ("src/cli/bench_check.c", "bench/oracle.h")
# rooms below which folders are private to the room
PRIVATE = ["device/cpu/"]
# kernels are compiled by the tests once more, for an emulation of CUDA
EMULATION = ("src/device/cuda/kernel.h", "emulation.h")
# who may include tools.h: the command, and the files that implement it
TOOLS_USERS = r"src/(cli|launch|tools)/.*"

# third-party headers: pattern, where they may be included, and in how many files of a room (0: any number)
HOMES = [
    (r"grpc/.*", r"src/cluster/rpc/.*\.[ch]", 0),
    (r"cjson/.*", r"src/(resolver/tf_config.*|checkpoint/safetensors|observe/timeline_read|data/transform|data/text/gpt2_vocabulary|weights/huggingface_json|model/layer_json|train/open|tools/about_weights)\.[ch]", 1),
    (r"(.*\.pb-c\.h|protobuf-c/.*)", r"src/(cluster/message|data/example|observe/event)\.c", 0),
    (r"(dnnl.*|oneapi/.*)", r"src/device/cpu/.*", 0),
    (r"openssl/.*", r"src/(base|cluster/security)/.*\.c", 0),
    (r"pcre2\.h", r"src/data/text/cutter\.c", 1),
    (r"yaml\.h", r"src/cli/config\.c", 1),
    (r"zlib\.h", r"src/data/.*\.c", 1),
    (r"(jpeglib|jerror)\.h", r"src/data/jpeg\.c", 1),
    (r"png\.h", r"src/data/png\.c", 1),
    (r"cuda.*", r"src/device/cuda/.*", 0),
    (r"(cudnn|cublas|nccl).*", r"src/device/cuda/.*\.[ch]", 0),
]

# Which way leads from gradients to variables: the files of the ways ask, and those that choose, name or plan one.
WAY = re.compile(r"\bLS_WAY_|\bls_strategy_is_async\(|strategy->(delay|consistency)\b|->sync_every\b|local\.sync_every\b")
WAYS = r"src/(base|cli|strategy|sync)/.*|src/tools/plan\w*\.[ch]"

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def includes():
    for path in house.files("src", "examples"):
        for bracket, header in INCLUDE.findall(house.read(path)):
            yield path, bracket, header


def room_fault(path, header):
    """Why path may not include header, a path below src."""
    if (path, header) in (EMULATION, ORACLE):
        return None
    if not os.path.exists(os.path.join(house.ROOT, "src", header)):
        return None if header.endswith(".pb-c.h") else f"{path}: no such header below src: {header}"
    room, other = path.split("/")[1], header.split("/")[0]
    private = next((folder for folder in PRIVATE if header.startswith(folder)), None)
    if private and room != private.split("/")[0]:
        return f"{path} includes {header}, which is private to {private}"
    if other == room or other in ROOMS[room] or header in HEADERS.get(room, []):
        return None
    return f"{path} includes {header}: {room} may not include {other}"


def directions():
    faults = []
    for path, bracket, header in includes():
        if path.startswith("examples/"):
            if header.startswith("lockstep/") and header != PUBLIC or bracket == '"':
                faults.append(f"{path} includes {header}: examples include {PUBLIC} only")
        elif header == TOOLS:
            if not re.fullmatch(TOOLS_USERS, path):
                faults.append(f"{path} includes {header}, which is for the command only")
        elif bracket == '"':
            faults.append(room_fault(path, header))
        elif header.split("/")[0] in ROOMS:
            faults.append(f"{path}: write \"{header}\" with quotation marks")
    return [fault for fault in faults if fault]


def mutual_pairs():
    """Folders, with those below rooms, that include each other."""
    edges = {}
    for path, bracket, header in includes():
        folder, other = os.path.dirname(path)[4:], os.path.dirname(header)
        if path.startswith("src/") and bracket == '"' and os.path.exists(os.path.join(house.ROOT, "src", header)) and \
                folder != other and (path, header) != EMULATION:
            edges.setdefault((folder, other), f"{path} includes {header}")
    return [f"{why}, and {edges[other, folder]}" for (folder, other), why in sorted(edges.items())
            if folder < other and (other, folder) in edges]


def homes(pattern, home, limit):
    faults, users = [], {}
    for path, _, header in includes():
        if not re.fullmatch(pattern, header):
            continue
        if not re.fullmatch(home, path):
            faults.append(f"{path} includes {header}, whose home is {home}")
        users.setdefault(os.path.dirname(path), set()).add(path)
    for folder, paths in users.items():
        if limit and len(paths) > limit:
            faults.append(f"{folder}: more than {limit} file includes {pattern}: {', '.join(sorted(paths))}")
    return faults


def unknown_rooms():
    rooms = {path.split("/")[1] for path in house.files("src") if path.count("/") > 1}
    return [f"src/{room} has no row in the table" for room in sorted(rooms - set(ROOMS))]


def ways():
    return [f"{path} asks which way is in force: {match[0]}" for path in house.files("src")
            if not re.fullmatch(WAYS, path) for match in WAY.finditer(house.read(path))]


results = house.Results()
results.check("every room is in the table", unknown_rooms())
results.check("include directions", directions())
results.check("no two folders include each other", mutual_pairs())
results.check("a way's files alone ask which way leads from gradients to variables", ways())
for row in HOMES:
    results.check(f"one home for {row[0]}", homes(*row))
results.finish()
