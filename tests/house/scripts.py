"""Scripts parse and are executable, and what the documents name exists.

usage: scripts.py LOCKSTEP"""
import os
import re
import sys

import house

PATH = re.compile(r"(?<![\w/.-])((?:scripts|examples|docs|bench|tests|src|include|proto|deploy)/[\w./-]+\w|\.ci/run)(?![\w*{<$/])")
PLACE = re.compile(r"[A-Z]{4}")  # tests/ROOM/SUBJECT.c
COMMAND = re.compile(r"^(?:\$ )?(?:build/)?lockstep (\w[\w-]*)|-- (?:build/)?lockstep (\w[\w-]*)", re.M)


def scripts():
    return [path for path in house.files("scripts", ".ci", "examples", "bench", "tests", endings=("",))
            if house.read_start(path).startswith("#!")]


def script_faults(path):
    first = house.read_start(path).splitlines()[0]
    called = os.access(os.path.join(house.ROOT, path), os.X_OK) or path.startswith("tests/")  # meson calls those itself
    faults = [] if called else [f"{path} is not executable"]
    if "bash" in first:
        status, said = house.run(["bash", "-n", path])
        faults += [said] if status else []
        if "set -euo pipefail" not in house.read(path):
            faults.append(f"{path}: no 'set -euo pipefail'")
    elif "python" in first:
        compile(house.read(path), path, "exec")
    else:
        faults.append(f"{path}: neither bash nor python: {first}")
    return faults


def documents():
    return house.files("README.md", "CONTRIBUTING.md", "docs", endings=(".md",))


def missing_paths(path):
    names = {match.rstrip(".") for match in PATH.findall(house.read(path))}
    return [f"{path} names {name}, which is not there" for name in sorted(names)
            if not os.path.exists(os.path.join(house.ROOT, name)) and not PLACE.search(name)]


def unknown_commands(path, known):
    blocks = "\n".join(re.findall(r"^```(?:sh|bash|console|text)?\n(.*?)^```", house.read(path), re.M | re.S))
    names = {one or two for one, two in COMMAND.findall(blocks)}
    return [f"{path} names 'lockstep {name}', which is no command" for name in sorted(names - known)]


lockstep = os.path.abspath(sys.argv[1])
results = house.Results()
_, text = house.run([lockstep, "--help"])
commands = set(re.findall(r"^  (\w+) ", text.partition("commands:")[2].partition("\n\n")[0], re.M))
results.check("lockstep --help lists the commands", [] if {"run", "train", "check", "info"} <= commands else [text])
for script in scripts():
    results.check(f"{script} parses", script_faults(script))
for document in documents():
    results.check(f"{document}: paths exist", missing_paths(document))
    results.check(f"{document}: commands exist", unknown_commands(document, commands | {"help"}))
for name in sorted(commands):
    status, text = house.run([lockstep, name, "--help"])
    wanted = ["usage:", "exit status", "--help"]
    results.check(f"lockstep {name} --help is worth reading",
                  [f"no '{word}'" for word in wanted if word not in text] + ["it fails"] * (status != 0))
results.finish()
