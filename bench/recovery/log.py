"""What the peers' workers of bench/recovery write for it, as worker.c does: when they are loaded, when they enter the
training, and when each step is committed; and the sleep that makes all steps equally long."""
import argparse
import os
import time

CHECKPOINT_STEPS = 20


class Log:
    def __init__(self, start, rank, period):
        self.file = os.open(f"{start}-{rank}-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self.period = period

    def write(self, moment, what):
        os.write(self.file, f"{moment:.6f} {what}\n".encode())  # at once: a killed worker leaves whole lines

    def write_loaded(self):
        self.write(time.monotonic(), "loaded")

    def enter_training(self):
        self.next = time.monotonic()
        self.write(self.next, "training")

    def end_step(self, step):
        now = time.monotonic()
        self.write(now, step)
        self.next = max(self.next + self.period, now)
        time.sleep(self.next - now)


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("log", help="start of the file's name; -RANK-PID follows")
    parser.add_argument("steps", type=int)
    parser.add_argument("period", type=float, help="seconds of a step")
    parser.add_argument("checkpoint", help=f"what is written every {CHECKPOINT_STEPS} steps")
    return parser.parse_args()
