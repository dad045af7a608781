"""Runs meson test, and reads the results as it writes them: a line of JSON for each program that ran."""
import contextlib
import json
import os
import subprocess


def run(folder, names, times, *options, log="testlog.json", **environment):
    """With so many times their limits; the entries of the log, [] where there is none: the tests did not run."""
    log = os.path.join(folder, "meson-logs", log)
    with contextlib.suppress(FileNotFoundError):
        os.remove(log)
    command = ["env", "--default-signal", "meson", "test", "-C", folder, "--no-rebuild", "--timeout-multiplier",
               "%.1f" % times, *options, *names]
    meson = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        meson.wait()
    finally:
        if meson.poll() is None:  # stopped: it ends its tests
            meson.terminate()
            meson.wait()
    return entries(log)


def entries(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log if line.strip()]


def said(entry):
    return "%s\n%s" % (entry.get("stdout") or "", entry.get("stderr") or "")


def name_of(entry):
    """Without its suites."""
    return entry["name"].split(" / ")[-1]


def is_good(entry):
    return entry["result"] in ("OK", "EXPECTEDFAIL")
