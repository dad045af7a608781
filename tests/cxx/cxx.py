"""Each macro of the public headers works in C++: one program says the same as C11, and as C++17 and C++20 of g++ and clang++,
where no warning is given. The examples of the README and the headers compile as C++, too.

usage: cxx.py BUILD CC [ARGUMENTS OF CC]"""
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "house"))
import house  # noqa: E402

build, cc = os.path.abspath(sys.argv[1]), sys.argv[2:]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-Iinclude"]
MACRO = re.compile(r"^#define (\w+)\(", re.M)
HEADERS = [path for path in house.files("include") if not path.endswith("tools.h")]


def say(folder, name, compiler):
    """What the program says when compiled so, and what is wrong."""
    program = os.path.join(folder, name)
    status, said = house.run([*compiler, *STRICT, "tests/cxx/macros.c", "-x", "none", "-o", program, "-L" + build, "-llockstep",
                              "-Wl,-rpath," + build])
    if status:
        return "", [said]
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    status, said = house.run([program], env=dict(environment, LOCKSTEP_LOG="error"))
    return said, [] if status == 0 else [f"exit status {status}: {said}"]


def without_macro():
    """A function-like macro that C++ would get as C's compound literal."""
    given = set(MACRO.findall(house.read("include/lockstep/lockstep.hpp")))
    shared = {"ls_relu", "ls_relu6", "ls_leaky_relu", "ls_softmax"}  # which name other macros only
    return sorted({name for path in HEADERS for name in MACRO.findall(house.read(path))} - given - shared)


def programs():
    comment = house.read("include/lockstep/lockstep.h").split("*/")[0]
    yield "lockstep.h", "\n".join(line[7:] for line in comment.splitlines() if line.startswith(" *     "))
    for number, block in enumerate(re.findall(r"^```c\n(.*?)^```", house.read("README.md"), re.M | re.S)):
        if "main(" in block:
            yield f"README.md, program {number + 1}", block


results = house.Results()
results.check("each macro of the headers has its C++", without_macro())
with tempfile.TemporaryDirectory() as folder:
    expected, faults = say(folder, "c", [*cc, "-std=c11", "-x", "c"])
    results.check("the program as C11", faults or ([] if "weights " in expected else ["it says nothing"]))
    for cxx in filter(shutil.which, ["g++", "clang++"]):
        for standard in ["c++17", "c++20"]:
            said, faults = say(folder, "cxx", [cxx, "-std=" + standard, "-x", "c++"])
            results.check(f"{cxx} {standard} says the same", faults or ([] if said == expected else [said, "not", expected]))
        for name, text in programs():
            status, said = house.run([cxx, "-std=c++17", *STRICT, "-fsyntax-only", "-x", "c++", "-"], input=text)
            results.check(f"{cxx} compiles the program of {name}", [said] if status else [])
results.finish()
