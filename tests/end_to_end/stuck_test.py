"""A read that hangs ends the training at LOCKSTEP_DATA_TIMEOUT with the example's name, on all workers, with data threads and
without: the thread that hangs is left behind."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
sys.argv.insert(1, os.environ["LOCKSTEP"])
from cli import LIMIT, PACE, contains, environment, equal, main  # noqa: E402


def run(threads):
    begun = time.monotonic()
    try:
        done = subprocess.run([os.environ["LOCKSTEP"], "run", "-np", "2", "--", os.environ["STUCK"], str(threads)],
                              env={**environment(), "LOCKSTEP_DATA_TIMEOUT": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"it has not ended in {late.timeout} s: {late.stderr}") from late
    err = done.stderr.decode()
    equal(done.returncode, 138, err)
    # batches of 8 over 4 replicas: rank 1 has 4 to 7 of each, so example 44 is the first that is stuck there
    contains(err, "[1] ")
    contains(err, "DEADLINE_EXCEEDED: epoch 1, step 6: ")
    contains(err, "the data of step 5 of epoch 0 has not been read within 1 s")
    contains(err, "example 44 is being read")
    equal(time.monotonic() - begun < 15 * PACE, True, f"{time.monotonic() - begun:.1f} s: {err}")


def with_data_threads():
    run(3)


def without_data_threads():
    run(-1)


def a_replica_that_is_late_is_waited_for_aloud():
    done = subprocess.run([os.environ["STUCK"], "replica"], env={**environment(), "LOCKSTEP_REPORT_INTERVAL": "1"}, timeout=LIMIT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    err = done.stderr.decode()
    equal(done.returncode, 0, err)
    contains(err, "replica 0 has waited 1 s for other replicas of this worker: 1 of 2 have come")


main([with_data_threads, without_data_threads, a_replica_that_is_late_is_waited_for_aloud])
