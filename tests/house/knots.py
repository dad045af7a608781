"""No knot: at most three units of src reach each other by calls and addresses of functions. A larger one cannot be read,
tested or moved by parts. Known ones stand in EXCEPTIONS with a reason; none may grow, and one that is open is taken off."""
import collections
import os
import re

import house

MOST = 3
PLUGIN = "src/device/cuda"
# Any unit of the knot: (units that it may have, reason).
EXCEPTIONS = {
    "src/device/cuda/dense.c": (7, "the ways to convolve are one table, and share bias and workspace"),
    "src/device/cuda/device.c": (5, "a device's queue, graphs and buffers enter its context"),
}
DEFINITION = re.compile(r"^(?!typedef\b|extern\b|#)((?:[A-Za-z_]\w*[ \*]+)+)\**(\w+)\([^;{}]*\)\s*(?:__attribute__\(\(.*?\)\)\s*)?\{", re.M)
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
TAG = re.compile(r"\b(?:struct|enum|union)\s+\w+")
FIELD = re.compile(r"(?:->|\.)\s*[A-Za-z_]\w*")
NAME = re.compile(r"[A-Za-z_]\w*")


def code(text):
    """Without comments, strings, tags and fields: a name that stands in the rest is called, or its address is taken."""
    return FIELD.sub(" ", TAG.sub(" ", NO_CODE.sub(" ", text)))


def edges(texts):
    """For each unit, the units whose functions it names. A plugin defines some of the library's functions anew, for its
    own folder."""
    homes = collections.defaultdict(dict)
    for unit, text in texts.items():
        for before, name in DEFINITION.findall(NO_CODE.sub(" ", text)):
            if "static" not in before.split():
                folder = os.path.dirname(unit)
                homes[name][folder if folder == PLUGIN else ""] = unit
    to = {}
    for unit, text in texts.items():
        named = (homes[name] for name in set(NAME.findall(code(text))) & homes.keys())
        to[unit] = {home.get(os.path.dirname(unit)) or home.get("") for home in named} - {unit, None}
    return to


def reached(start, to):
    seen, left = set(), [start]
    while left:
        for unit in to[left.pop()] - seen:
            seen.add(unit)
            left.append(unit)
    return seen


def knots(to):
    """The sets of units that reach each other, largest first."""
    reach = {unit: reached(unit, to) for unit in to}
    found = {frozenset(other for other in reach[unit] if unit in reach[other]) for unit in to if unit in reach[unit]}
    return sorted(found, key=lambda knot: (-len(knot), sorted(knot)))


def too_large(found):
    for knot in found:
        allowed = max([MOST] + [most for unit, (most, _) in EXCEPTIONS.items() if unit in knot])
        if len(knot) > allowed:
            yield f"{len(knot)} units reach each other: " + " ".join(sorted(knot))


def not_needed(found):
    return [unit for unit, (most, _) in EXCEPTIONS.items()
            if not any(unit in knot and len(knot) == most for knot in found)]


results = house.Results()
ring = {"a.c": "struct b *b_get(void) { return c(); }", "b.c": "int b(void) { return 0; }\nint d(void) { return use(b_get); }",
        "c.c": "int c(void) { return d() + x->b; } /* b() */"}
ring_knots = knots(edges(ring))
results.check("calls and addresses make a knot, tags, fields and comments do not",
              [] if ring_knots == [frozenset(ring)] and edges(ring)["a.c"] == {"c.c"} else [str(edges(ring))])
units = {path: house.read(path) for path in house.files("src", endings=(".c",))}
links = edges(units)
all_knots = knots(links)
results.check("edges are found", [] if sum(map(len, links.values())) > 500 else [f"only {sum(map(len, links.values()))}"])
results.check(f"no knot of more than {MOST} units", list(too_large(all_knots)))
results.check("every exception is needed, and none has room to grow", not_needed(all_knots))
results.finish()
