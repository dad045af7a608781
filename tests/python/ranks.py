"""Groups of Python processes under lockstep run: start them, and read what they said."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "end_to_end"))
from cluster import LIMIT, free_ports  # noqa: E402

LOCKSTEP = os.environ.get("LOCKSTEP", os.path.join(HERE, "../../build/lockstep"))


def environment(**extra):
    package = os.path.join(HERE, "../../python")
    return {**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def command(count, program, *arguments, options=()):
    """lockstep run of a program of this folder."""
    return [LOCKSTEP, "run", "-np", str(count), *options, "--", sys.executable, os.path.join(HERE, program), *arguments]


def run(count, program, *arguments, options=(), timeout=LIMIT, **extra):
    """(exit status, standard output, standard error)."""
    done = subprocess.run(command(count, program, *arguments, options=options), capture_output=True, text=True, timeout=timeout,
                          env=environment(**extra))
    return done.returncode, done.stdout, done.stderr


def free_port():
    return free_ports(1)[0]
