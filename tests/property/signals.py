#!/usr/bin/env python3
"""SIGTERM and SIGINT at random moments of fit, evaluate, predict and the join, to one worker or all, with and without
another one that is lost: everybody ends soon, with the right status, and nobody takes it for a crash.

LOCKSTEP names the command. Prints the seed, and the round that failed."""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument("--seed", type=int, default=random.randrange(1 << 32))
OPTIONS.add_argument("--seconds", type=float, default=300 if os.environ.get("LOCKSTEP_TEST_FULL") else 8)
SOON = 20  # seconds: what is asked must be done in 2 and a bit, on a busy machine


def commands(folder):
    weights = os.path.join(folder, "weights.safetensors")
    subprocess.run([LOCKSTEP, "train", "--limit", "100", "--epochs", "1", "--hidden", "8", "--save-best", weights, "--verbose", "-1"],
                   check=True, capture_output=True)
    fit = ["train", "--limit", "1000", "--epochs", "100000", "--hidden", "8", "--verbose", "-1"]
    saved = ["--weights", weights, "--hidden", "8", "--batch-size", "2"]
    return {
        "fit": lambda: [*fit, "--no-validation"],
        "fit and save": lambda: [*fit, "--checkpoint", tempfile.mkdtemp(dir=folder)],
        "evaluate": lambda: ["evaluate", *saved, "--split", "train"],
        "predict": lambda: ["predict", *saved, "--split", "train", "--output", os.path.join(folder, "out.npy")],
    }


class Round:
    def __init__(self, generator, made, port, folder):
        self.count = generator.choice((2, 2, 3))
        self.name = generator.choice(list(made))
        self.number = generator.choice((signal.SIGTERM, signal.SIGINT))
        self.asked = generator.choice([[rank] for rank in range(self.count)] + [list(range(self.count))])
        self.absent = generator.random() < 0.15  # the last one never comes: it is the join that is waited in
        others = [rank for rank in range(self.count) if rank not in self.asked]
        self.lost = generator.choice(others) if others and not self.absent and generator.random() < 0.4 else None
        self.delay = generator.uniform(0, 0.4 if generator.random() < 0.3 else 1.5)
        self.command = made[self.name]()
        self.port, self.folder = port, folder
        self.tasks = {}

    def __str__(self):
        return "%s on %d workers, %s to %s after %.3f s, lost %s, absent %s" % (
            self.name, self.count, self.number.name, self.asked, self.delay, self.lost, self.absent)

    def start(self, rank):
        config = {"cluster": {"worker": ["127.0.0.1:%d" % (self.port + i) for i in range(self.count)]},
                  "task": {"type": "worker", "index": rank}}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
        environment.update(TF_CONFIG=json.dumps(config), OMP_NUM_THREADS="1", LOCKSTEP_REJOIN_TIMEOUT="600")
        with open(self.said(rank), "w", encoding="utf-8") as said:
            self.tasks[rank] = subprocess.Popen([LOCKSTEP, *self.command], env=environment, stdin=subprocess.DEVNULL,
                                                stdout=said, stderr=said)

    def said(self, rank):
        return os.path.join(self.folder, "said.%d" % rank)

    def read(self, rank):
        with open(self.said(rank), encoding="utf-8", errors="replace") as said:
            return said.read()

    def wait(self):
        """Whom nobody has met, or who comes back to nobody, waits on: it is asked too. Those that were."""
        end = time.monotonic() + SOON
        for task in self.tasks.values():
            while task.poll() is None and time.monotonic() < end and not self.waits_alone():
                time.sleep(0.01)
        left = [rank for rank, task in self.tasks.items() if task.poll() is None]
        for rank in left:
            self.tasks[rank].send_signal(self.number)
        for rank in left:
            self.tasks[rank].wait(timeout=SOON)
        return left

    def waits_alone(self):
        """Everybody who was asked has ended, and who is left has never met them."""
        gone = all(self.tasks[rank].poll() is not None for rank in self.asked if rank in self.tasks)
        return gone and not any("in sync" in self.read(rank) for rank, task in self.tasks.items() if task.poll() is None)

    def run(self):
        for rank in range(self.count):
            if not (self.absent and rank == self.count - 1):
                self.start(rank)
        time.sleep(self.delay)
        if self.lost is not None:
            self.tasks[self.lost].kill()
            time.sleep(self.delay / 4)
        for rank in self.asked:
            if rank in self.tasks:
                self.tasks[rank].send_signal(self.number)
        left = self.wait()
        return [fault for rank in self.tasks for fault in self.faults(rank, left)]

    def faults(self, rank, left):
        status, said = self.tasks[rank].returncode, self.read(rank)
        joined = "in sync" in said
        if rank == self.lost:
            return []
        allowed = {0, 143}  # it had finished before, or was told
        if rank in self.asked or rank in left:
            allowed |= {128 + self.number}
            if not joined:
                allowed |= {-self.number}  # nobody had asked it yet, and there was nobody to tell
        wrong = [] if status in allowed else ["rank %d ended with %d" % (rank, status)]
        if rank in left and joined:
            wrong.append("rank %d was not told" % rank)
        return wrong + (["rank %d crashed: %s" % (rank, said)] if "Sanitizer" in said else [])


def main():
    options = OPTIONS.parse_args()
    print("seed %d, %g s" % (options.seed, options.seconds), flush=True)
    generator, folder = random.Random(options.seed), tempfile.mkdtemp(prefix="lockstep-signals-")
    made, end, rounds = commands(folder), time.monotonic() + options.seconds, 0
    first = 21000 + os.getpid() % 800 * 4
    try:
        while time.monotonic() < end:
            one = Round(generator, made, first + rounds % 100 * 4, folder)
            rounds += 1
            try:
                faults = one.run()
            finally:
                for task in one.tasks.values():
                    if task.poll() is None:
                        task.kill()
                        task.wait()
            if faults:
                said = ["rank %d, %d:\n%s" % (rank, task.returncode, one.read(rank)) for rank, task in one.tasks.items()]
                print("round %d: %s\n%s\n%s" % (rounds, one, "\n".join(faults), "\n".join(said)))
                return 1
    finally:
        shutil.rmtree(folder)
    print("%d rounds" % rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
