"""Arrays that say whether they are still there, and how rank 0 does something before the others go on."""
import array
import gc
import os
import time
import weakref

_alive = set()


def watched(kind, values, label):
    """An array of which left() has the label for as long as something holds its memory."""
    made = array.array(kind, values)
    _alive.add(label)
    weakref.finalize(made, _alive.discard, label)
    return made


def left():
    gc.collect()
    return set(_alive)


def first(rank, flag, do):
    """Rank 0 calls do; the others wait for that, without a call of the group."""
    if rank == 0:
        do()
        open(flag, "x").close()
    while not os.path.exists(flag):
        time.sleep(0.01)
