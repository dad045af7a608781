"""What the python all-reduce programs share: the sizes, the check, the iterations and the line of JSON.

A backend has rank, workers, allocate(count), fill, clear, meet (nobody goes on before all are there), reduce (returns
its seconds), count_wrong (over all ranks), slowest (element by element the maximum over the ranks) and total (the sum of
one number over the ranks).
"""
import argparse
import json
import statistics
import time

WARM_UP, FEWEST, FEWEST_SLOW, MOST = 3, 7, 3, 20000


def time_one(backend, touch):
    if touch:
        backend.fill()
        backend.meet()
    return backend.reduce()


def plan_iterations(backend, options):
    """The same number on every rank: what the slowest does in the time given; less often where one call takes all of it."""
    for _ in range(WARM_UP):
        start = time.perf_counter()
        time_one(backend, options.touch)
        seconds = backend.slowest([time.perf_counter() - start])[0]
        if seconds >= options.seconds:
            return FEWEST_SLOW
    return min(max(FEWEST, int(options.seconds / seconds)), MOST)


def run_size(backend, bytes, options):
    backend.allocate(bytes // 4)
    backend.fill()
    backend.reduce()
    wrong = backend.count_wrong()
    backend.clear()  # sums of sums would grow without end
    iterations = plan_iterations(backend, options)
    used = time.process_time()  # of all threads
    times = [time_one(backend, options.touch) for _ in range(iterations)]
    used = time.process_time() - used
    return {"bytes": bytes, "time_us": 1e6 * statistics.median(backend.slowest(times)),
            "cpu_us": 1e6 * backend.total(used) / iterations, "wrong": wrong}


def run_sizes(text, make_backend):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--bytes", required=True, help="sizes, multiples of 4, with commas between them")
    parser.add_argument("--seconds", type=float, required=True, help="of one size, about")
    parser.add_argument("--touch", action="store_true", help="rewrite the vector before each iteration, untimed")
    options = parser.parse_args()
    backend = make_backend()
    rows = [run_size(backend, int(bytes), options) for bytes in options.bytes.split(",")]
    if backend.rank == 0:
        print(json.dumps({"workers": backend.workers, "rows": rows}), flush=True)
