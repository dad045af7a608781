"""Names lead to files: a function is declared in its file's header and begins with its file's stem; a struct tag
stands for one thing, the name of a static function for one thing in its room. Exceptions: names.txt, "function
reason"."""
import collections
import os
import re

import house

STATIC = re.compile(r"^(?:LS_\w+ |__attribute__\(\(.*?\)\) )*static (?:[A-Za-z_]\w*[ \*]+)+(?:\{[^{}]*\} )?\**(\w+)\([^;{}]*\)\s*\{", re.M)
FUNCTION = re.compile(r"^(?!typedef\b|extern\b|#)((?:[A-Za-z_]\w*[ \*]+)+)\**(\w+)\(([^;{}]*)\)\s*(?:__attribute__\(\(.*?\)\)\s*)?\{", re.M)
# One header tells what their files have in common: the ops of a device, the commands.
SHARED_HEADER = ("src/device/cpu/", "src/device/cuda/", "src/cli/", "src/launch/")

sources = house.files("src", endings=(".c",))
headers = house.files("src", endings=(".h",))
text = {path: house.read(path) for path in sources + headers}
public = set(re.findall(r"\b(ls_\w+)\s*\(", "".join(house.read(path) for path in house.files("include", endings=(".h",)))))
exceptions = dict(line.split(None, 1) for line in house.read("tests/house/names.txt").splitlines() if line and line[0] != "#")


def functions():
    """(path, name) of all that other files can call, but for the public ones."""
    for path in sources:
        for before, name, _ in FUNCTION.findall(text[path]):
            if "static" not in before.split() and name not in public and name != "main":
                yield path, name


def stem(path):
    return os.path.basename(path)[:-2]


def leads_to(name, path):
    """ls_STEM, ls_ROOM_STEM or ls_SUBJECT_STEM, and what follows it; a plural counts as the stem."""
    one = stem(path)
    words = {one, one.removesuffix("s"), one + "s"}
    return any(re.fullmatch(rf"ls_(\w+_)?{word}(_\w+)?", name) for word in words)


def header_of(path):
    """A file's header has its name, or is its family's (readers.h, stage.h): the first of its folder that it includes."""
    own = path[:-2] + ".h"
    first = re.search(r'^#include "([^"]+)"', text[path], re.M)
    family = "src/" + first[1] if first else own
    return own if own in text or os.path.dirname(family) != os.path.dirname(path) else family


def undeclared():
    for path, name in found:
        own = header_of(path)
        private = path[:-2] + "_private.h" # what only the room sees of it
        if not re.search(rf"\b{name}\(", text.get(own, "") + text.get(private, "")):
            yield name, f"{path}: {name} is not declared in {own}"


def misnamed():
    for path, name in found:
        if not leads_to(name, path):
            yield name, f"{path}: {name} does not carry the file's name"


def repeated(names_of, place_of):
    """The names that stand in several files of one place."""
    where = collections.defaultdict(set)
    for path in text:
        for name in names_of(path):
            where[place_of(path), name].add(path)
    return [f"{name}: {', '.join(sorted(paths))}" for (_, name), paths in sorted(where.items()) if len(paths) > 1]


def room(path):
    return path.split("/")[1]


def struct_tags(path):
    return re.findall(r"^struct (ls_\w+) \{", text[path], re.M)


def statics(path):
    return STATIC.findall(text[path])


found = [(path, name) for path, name in functions() if not path.startswith(SHARED_HEADER)]
faults = list(undeclared()) + list(misnamed())
results = house.Results()
results.check("functions are found", [] if len(found) > 500 else [f"only {len(found)}"])
results.check("each function is declared in its file's header and carries its name",
              [fault for name, fault in faults if name not in exceptions])
results.check("every exception is needed", sorted(set(exceptions) - {name for name, _ in faults}))
results.check("no struct tag stands twice", repeated(struct_tags, lambda path: "src"))
results.check("static functions are found", [] if sum(len(statics(path)) for path in text) > 4000 else ["too few"])
results.check("no static function's name stands twice in a room", repeated(statics, room))
results.finish()
