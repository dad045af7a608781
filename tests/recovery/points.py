"""The named points (src/base/point.h), and when each is reached in the worker's training of 2 epochs of 8 steps."""
import os
import re
from collections import namedtuple

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")

# again: reached many times (5 means in the middle); recovers: reached anew in each recovery; only_first: by rank 0 alone
# while it has not been lost
Point = namedtuple("Point", "again recovers only_first")
POINTS = {
    "form": Point(False, True, False),
    "propose": Point(False, True, True),
    "links": Point(False, True, False),
    "group": Point(False, True, False),
    "state": Point(False, True, False),
    "accepted": Point(False, True, False),
    "begin": Point(False, True, True),
    "entered": Point(False, True, False),
    "broadcast": Point(False, False, False),
    "checkpoint_read": Point(False, False, False),
    "resumed": Point(False, False, False),
    "exchange": Point(True, False, False),
    "meeting": Point(True, False, False),
    "fragment": Point(True, False, False),
    "gathered": Point(True, False, False),
    "drain": Point(True, False, False),
    "bucket": Point(True, False, False),
    "sums": Point(True, False, False),
    "commit": Point(True, False, False),
    "committed": Point(True, False, False),
    "predict": Point(False, False, False),
    "evaluate": Point(False, False, False),
    "verify": Point(False, False, False),
    "checkpoint": Point(False, False, True),
    "checkpoint_done": Point(False, False, True),
    "checkpoint_write": Point(False, False, True),
    "exit": Point(False, False, False),
}
# of a data link, which some ranks dial and others admit: as many times as there are links
LINK_POINTS = ("admit", "dial")

# of a custom loop, and of collectives alone (loop.c): the program's own points, and those of the library that it comes to
LOOP_POINTS = {
    **{name: what for name, what in POINTS.items() if what.recovers or name == "exit"},
    "gradient": Point(True, False, False),
    "reduced": Point(True, False, False),
    "step": Point(True, False, False),
}
BARE_POINTS = {name: what for name, what in LOOP_POINTS.items() if name not in ("reduced", "exit")}
# of steps that are delayed: nobody waits for sums, and checkpoints change what is computed
DELAYED_POINTS = {name: what for name, what in POINTS.items() if name != "sums" and not name.startswith("checkpoint")}
# of workers that own the moments
SHARDED_POINTS = {
    **POINTS,
    "applied": Point(True, False, False),
    "gather": Point(True, False, False),
    "handover": Point(False, True, False),
    "handed_over": Point(False, True, False),
}
# of stages, which send each other what reducers add, and are lost for good behind their fit
STAGED_POINTS = {name: what for name, what in SHARDED_POINTS.items()
                 if name not in ("bucket", "sums", "handover", "handed_over", "predict", "exit")}
# reached with servers or workers that own moments, or where something is undone: learned.py finds them
OF_SERVERS = ("applied", "gather", "handed_over", "handover", "moments", "pull", "push", "undo")
# reached by synchronized batch normalization, accumulation, local SGD, delayed steps, fragments
WITH_OPTIONS = ("exchange", "gathered", "meeting", "drain", "fragment")


def in_sources():
    """The names in the library's calls."""
    names = set()
    for folder, _, files in os.walk(SOURCES):
        for name in files:
            if name.endswith(".c"):
                with open(os.path.join(folder, name), encoding="utf-8") as source:
                    names |= set(re.findall(r'ls_reached\("(\w+)"\)', source.read()))
    return sorted(names)


def moment(point, times, points=POINTS):
    """LOCKSTEP_TEST_AT for it: the first time, or the times-th where there are so many."""
    return "%s:%d:KILL" % (point, times if points[point].again else 1)
