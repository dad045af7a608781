#!/usr/bin/env python3
"""Sixty-four workers on one host: what each of them holds is bounded by a number that does not grow with the workers, but
for the coordinator's streams. bench/RESULTS.md has the formulas."""
import json
import os
import subprocess
import time
import unittest

from cluster import HIDDEN, LIMIT, LOCKSTEP, drawn, last_json

WORKERS = 64
TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *HIDDEN, "--epochs", "1", "--steps-per-epoch", "30", "--batch-size",
         str(2 * WORKERS), "--no-validation", "--json"]
WINDOW = 3
DESCRIPTORS = 80
DESCRIPTORS_A_PEER = 5  # two streams, and what watches over them
THREADS = 24
RESIDENT = 40 << 20


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += [int(child) for child in file.read().split()]
    return found


def below(launcher):
    """The processes of its agent: the workers, and the guard."""
    try:
        return [worker for agent in children(launcher) for worker in children(agent)]
    except (FileNotFoundError, ProcessLookupError):
        return []  # one of them has just ended


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sockets(pid):
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return sum(link.startswith("socket:") for link in links)


def look(pid):
    """What a process holds now."""
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "sockets": sockets(pid),
            "threads": len(os.listdir(f"/proc/{pid}/task")), "resident": resident(pid)}


def rank_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            if entry.startswith(b"TF_CONFIG="):
                return json.loads(entry[10:])["task"]["index"]
    return None


class Bounds(unittest.TestCase):
    def run_job(self, **settings):
        """The most that each rank was seen to hold, and what rank 0 has printed."""
        command = [LOCKSTEP, "run", "-np", str(WORKERS), "--", *TRAIN]
        plain = {"MALLOC_PERTURB_": "0"}  # filling memory that is freed makes it resident
        job = subprocess.Popen(command, env={**os.environ, **plain, **settings}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        most, ranks = {}, {}
        while job.poll() is None:
            for pid in below(job.pid):
                try:
                    if ranks.get(pid) is None:  # until it is forked and has become the worker's program
                        ranks[pid] = rank_of(pid)
                        continue
                    seen = look(pid)
                except (FileNotFoundError, ProcessLookupError, PermissionError):
                    continue
                held = most.setdefault(ranks[pid], seen)
                for name, value in seen.items():
                    held[name] = max(held[name], value)
            time.sleep(0.2)
        output, errors = job.communicate()
        self.assertEqual(job.returncode, 0, errors)
        self.assertEqual(sorted(most), list(range(WORKERS)))
        return most, [json.loads(line.split("] ", 1)[1]) for line in output.splitlines() if "weights_sha256" in line][0]

    def expect_bounds(self, most):
        for rank, held in most.items():
            with self.subTest(rank=rank, **held):
                self.assertLessEqual(held["threads"], THREADS)
                if rank >= WINDOW:
                    self.assertLessEqual(held["descriptors"], DESCRIPTORS)
                else:
                    self.assertLessEqual(held["descriptors"], DESCRIPTORS + DESCRIPTORS_A_PEER * WORKERS)
                if rank >= WINDOW:
                    self.assertLessEqual(held["resident"], RESIDENT)

    def test_each_transport(self):
        """To the bits of as many replicas in one process."""
        alone = subprocess.run([*TRAIN, "--devices", str(WORKERS)], capture_output=True, text=True, check=True, timeout=LIMIT)
        for transport in drawn(("shm", "tcp"), "scale"):
            most, report = self.run_job(LOCKSTEP_TRANSPORT=transport)
            self.expect_bounds(most)
            self.assertEqual(report["num_workers"], WORKERS)
            self.assertEqual(report["weights_sha256"], last_json(alone.stdout)["weights_sha256"], transport)


if __name__ == "__main__":
    unittest.main(verbosity=2)
