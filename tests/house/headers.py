"""The public headers compile alone as C11 and C++17 without a warning; so do the programs of the header and the README.

usage: headers.py CXX CC [ARGUMENTS OF CC]"""
import re
import sys

import house

HEADERS = ["lockstep/lockstep.h", "lockstep/callbacks.h", "lockstep/cluster_spec.h", "lockstep/collectives.h", "lockstep/data.h",
           "lockstep/layers.h", "lockstep/saving.h", "lockstep/strategies.h", "lockstep/tokenizer.h", "lockstep/tools.h", "lockstep/training.h"]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-Iinclude"]
LIMIT = 400


def compile_text(compiler, language, standard, text):
    status, said = house.run([*compiler, *STRICT, f"-std={standard}", "-x", language, "-"], input=text)
    return [said.strip() or "the compiler failed"] if status else []


def header_program():
    """The program in the opening comment of lockstep.h."""
    comment = house.read("include/lockstep/lockstep.h").split("*/")[0]
    return "\n".join(line[7:] for line in comment.splitlines() if line.startswith(" *     "))


def readme_programs():
    try:
        blocks = re.findall(r"^```c\n(.*?)^```", house.read("README.md"), re.M | re.S)
    except FileNotFoundError:
        return []
    return [block for block in blocks if "main(" in block]


cxx, cc = [sys.argv[1]], sys.argv[2:]
results = house.Results()
for header in HEADERS:
    text = f"#include <{header}>\n"
    results.check(f"{header} alone as C11", compile_text(cc, "c", "c11", text))
    results.check(f"{header} alone as C++17", compile_text(cxx, "c++", "c++17", text))
    results.check(f"{header} twice as C11", compile_text(cc, "c", "c11", 2 * text))
program = header_program()
results.check("lockstep/lockstep.hpp alone as C++17", compile_text(cxx, "c++", "c++17", "#include <lockstep/lockstep.hpp>\n"))
results.check("lockstep.h opens with a complete program", [] if "int main(" in program else ["it does not"])
results.check("the program of lockstep.h compiles", compile_text(cc, "c", "c11", program))
for number, program in enumerate(readme_programs()):
    results.check(f"program {number + 1} of README.md compiles", compile_text(cc, "c", "c11", program))
lines = house.read("include/lockstep/lockstep.h").count("\n")
results.check(f"lockstep.h has at most {LIMIT} lines", [] if lines <= LIMIT else [f"it has {lines}"])
results.finish()
