"""What the tests of the command share: running it, waiting with a limit, and results as TAP for meson."""
import os
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from pace import LIMIT, PACE  # noqa: E402, F401

LOCKSTEP = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # by nohup or a shell that started this in the background
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)


def environment(**variables):
    """The test's own surroundings without what would change the command's."""
    kept = {name: value for name, value in os.environ.items() if name not in ("TF_CONFIG", "OMP_NUM_THREADS")}
    kept = {name: value for name, value in kept.items() if not name.startswith("LOCKSTEP_")}
    return {**kept, **variables}


def lockstep(*arguments, env=None, **kwargs):
    """Runs the command to its end; returns what it returned and said."""
    return subprocess.run([LOCKSTEP, *arguments], env=env or environment(), stdout=subprocess.PIPE, timeout=LIMIT,
                          **{"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, **kwargs})


def start(*arguments, env=None, **kwargs):
    return subprocess.Popen([LOCKSTEP, *arguments], env=env or environment(), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **kwargs)


def finish(process):
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


def wait_until(condition, what, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def alive(pid):
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, not {want!r}")


def contains(text, part):
    if part not in text:
        raise AssertionError(f"no {part!r} in {text!r}")


def main(tests):
    """Runs the functions and prints TAP."""
    failed = 0
    for number, test in enumerate(tests, 1):
        name = test.__name__.replace("_", " ")
        try:
            test()
            print(f"ok {number} - {name}", flush=True)
        except Exception:  # a test that breaks has failed
            failed += 1
            print(f"not ok {number} - {name}")
            print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    print(f"1..{len(tests)}")
    sys.exit(1 if failed else 0)


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
