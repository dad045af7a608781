"""What the tests of the house share: the tree's files, and results as TAP for meson."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*folders, endings=(".c", ".h", ".cu", ".cuh")):
    """Paths relative to the root of all files below folders (or the files themselves), sorted."""
    found = []
    for folder in folders:
        path = os.path.join(ROOT, folder)
        if os.path.isfile(path):
            found.append(folder)
        for base, _, names in os.walk(path):
            found += [os.path.relpath(os.path.join(base, name), ROOT) for name in names]
    return sorted(name for name in found if name.endswith(tuple(endings)) and "__pycache__" not in name)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def read_start(path):
    """The first kilobyte, of any file."""
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read(1024)


def run(command, **kwargs):
    """Runs a command in the root; returns its exit status and all that it said."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    return done.returncode, done.stdout


class Results:
    """Collects named checks; each has a list of faults, empty when it passed."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def check(self, name, faults):
        self.count += 1
        self.failed += bool(faults)
        print(f"{'not ok' if faults else 'ok'} {self.count} - {name}")
        for fault in faults:
            print(f"# {fault}".replace("\n", "\n# "))

    def finish(self):
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)
