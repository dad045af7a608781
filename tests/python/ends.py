"""One rank of a group in which rank 1 ends in the way that the argument names."""
import array
import os
import signal
import sys
import threading
import time

import lockstep

lockstep.init()
how, rank = sys.argv[1], lockstep.rank()


def interrupt(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def waits():
    begun = time.monotonic()
    try:
        lockstep.barrier("that nobody else enters")
    finally:
        print(f"waited {time.monotonic() - begun:.3f}", flush=True)


def fork_and_die():
    """The child outlives its parent by 15 seconds, in a session of its own that no launcher ends."""
    if not os.fork():
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        time.sleep(15)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


lockstep.barrier()
if rank != 1:
    if how.startswith("interrupted"):
        time.sleep(1.5)  # in no call, so that rank 1 waits alone
    lockstep.all_reduce(array.array("f", [1]), name="after the end")
elif how == "raises":
    raise ValueError("a broken script")
elif how == "exits":
    sys.exit(7)
elif how == "leaves":
    lockstep.shutdown()
elif how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif how == "forked":
    fork_and_die()
elif how == "interrupted":
    interrupt(0.3)
    waits()
elif how == "interrupted behind":
    interrupt(0.3)
    world = lockstep.world()
    pending = world.begin("begun", lambda: world.direct("ls_barrier", b"begun"))
    waits()
