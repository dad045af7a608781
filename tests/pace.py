"""Limits of tests are multiples of how much longer this machine takes than a quiet one of two slow cores. scripts/test
measures that as it begins, scripts/flaky beside its load."""
import hashlib
import os
import subprocess
import time

PACE = float(os.environ.get("LOCKSTEP_TEST_PACE") or 1)  # 1: nobody has measured
LIMIT = 60 * PACE  # seconds, of what a quiet machine does in a few
QUIET = 0.120  # seconds of work() there


def work():
    """Seconds for a fixed piece of it, computing and starting processes: the median of five."""
    taken = []
    for _ in range(5):
        begun = time.monotonic()
        hashlib.sha256(bytes(100_000_000)).digest()
        for _ in range(20):
            subprocess.run(["true"], check=True)
        taken.append(time.monotonic() - begun)
    return sorted(taken)[2]


def measure():
    return max(1, work() / QUIET)


def settings(pace):
    """The variables that say it to all tests, as in scripts/test; CK_TIMEOUT_MULTIPLIER is Check's."""
    return {"LOCKSTEP_TEST_PACE": "%.1f" % pace, "CK_TIMEOUT_MULTIPLIER": "%.1f" % pace}
