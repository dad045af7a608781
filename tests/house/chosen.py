"""Each name of a test, or pattern of names, that scripts/test and tests/proofs.py choose by is one of a test.

usage: chosen.py BUILD"""
import fnmatch
import os
import re
import sys

import house

sys.path.insert(0, os.path.join(house.ROOT, "tests"))
import builds  # noqa: E402
import proofs  # noqa: E402

# Tests that a build has only where CUDA's compiler or NCCL is.
OPTIONAL = ("cuda/*", "house/plugin", "*/*-gpu*")


def names_in(script):
    """The words of its lists that have a slash."""
    lists = re.findall(r'"([^"]*)"(?:"")?\.split\(\)', script)
    return {word for words in lists for word in words.split() if "/" in word}


tests = [test["name"] for test in builds.introspect(sys.argv[1], "tests")]
results = house.Results()
for place, chosen in (("tests/run.py", names_in(house.read("tests/run.py"))), ("tests/proofs.py", set(proofs.GUARDS))):
    assert chosen
    needed = sorted(name for name in chosen if not any(fnmatch.fnmatch(name, pattern) for pattern in OPTIONAL))
    results.check(f"each test that {place} names is one", [f"{name}: no test" for name in needed if not fnmatch.filter(tests, name)])
results.finish()
