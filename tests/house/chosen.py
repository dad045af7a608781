"""Each name of a test, or pattern of names, that scripts/test and tests/proofs.py choose by is one of a test.

usage: chosen.py BUILD"""
import fnmatch
import json
import os
import re
import sys

import house

sys.path.insert(0, os.path.join(house.ROOT, "tests"))
import proofs  # noqa: E402

# Tests that a build has only where CUDA's compiler or NCCL is.
OPTIONAL = ("cuda/*", "house/plugin", "*/*-gpu*")


def names_in(script):
    """The words of its arrays that have a slash."""
    arrays = re.findall(r"\b\w+=\(([^)]*)\)", script)
    return {word.strip("'") for array in arrays for word in array.split() if re.fullmatch(r"'?[a-z_*]+/[a-z0-9_*-]+'?", word)}


with open(os.path.join(sys.argv[1], "meson-info", "intro-tests.json"), encoding="utf-8") as listed:
    tests = [test["name"] for test in json.load(listed)]
results = house.Results()
for place, chosen in (("scripts/test", names_in(house.read("scripts/test"))), ("tests/proofs.py", set(proofs.GUARDS))):
    assert chosen
    needed = sorted(name for name in chosen if not any(fnmatch.fnmatch(name, pattern) for pattern in OPTIONAL))
    results.check(f"each test that {place} names is one", [f"{name}: no test" for name in needed if not fnmatch.filter(tests, name)])
results.finish()
