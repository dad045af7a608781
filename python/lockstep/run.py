"""The command lockstep of a wheel. python -m lockstep.run -np 2 [OPTIONS] script.py [ARGUMENTS...] is lockstep run with this Python for
the script, as torchrun starts one."""
from __future__ import annotations

import os
import shutil
import sys
from typing import List


def find_command() -> str:
    """Beside LOCKSTEP_LIBRARY, in the package's own folder (a wheel), or in PATH."""
    named = os.environ.get("LOCKSTEP_LIBRARY")
    folders = ([os.path.dirname(os.path.abspath(named))] if named else []) + [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")]
    for folder in folders:
        if os.access(os.path.join(folder, "lockstep"), os.X_OK):
            return os.path.join(folder, "lockstep")
    found = shutil.which("lockstep")
    if not found or os.path.samefile(found, sys.argv[0]):  # not the wheel's own script
        sys.exit("lockstep: the command is in none of " + ", ".join(folders) + ", nor in PATH: install Lockstep, or its wheel")
    return found


def with_python(arguments: List[str]) -> List[str]:
    """This Python before the script, and '--' before both. What has '--' and no script behind it stays as it is."""
    begin = arguments.index("--") + 1 if "--" in arguments else next(
        (place for place, word in enumerate(arguments) if word.endswith(".py")), None)
    if begin is None or begin == len(arguments) or not arguments[begin].endswith(".py"):
        return arguments
    options = arguments[:begin - 1] if "--" in arguments else arguments[:begin]
    return [*options, "--", sys.executable, *arguments[begin:]]


def command() -> None:
    """The console script lockstep."""
    found = find_command()
    os.execv(found, [found, *sys.argv[1:]])


def main() -> None:
    found = find_command()
    os.execv(found, [found, "run", *with_python(sys.argv[1:])])


if __name__ == "__main__":
    main()
