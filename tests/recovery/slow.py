"""A worker that is many times slower than the others, and what lockstep top says of it."""
import json
import os
import signal
import subprocess
import time

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")


class Slower:
    """A hook: from the first step on, a rank has the processor for one part in so many of the time: it is stopped and woken
    in turn, all its threads at once, as on a host that has too much to do. period: seconds of both together."""

    def __init__(self, rank, times, period):
        self.rank, self.run, self.rest = rank, period / times, period - period / times
        self.next, self.stopped, self.turns = None, False, 0

    def __call__(self, job):
        life, now = job.lives[self.rank][-1], time.monotonic()
        if life.status is not None or (self.next or now) > now:
            return
        if self.next is None and not life.notes("committed"):
            return
        self.stopped = not self.stopped
        self.turns += self.stopped
        life.process.send_signal(signal.SIGSTOP if self.stopped else signal.SIGCONT)
        self.next = now + (self.rest if self.stopped else self.run)


    def stops_often(self, seconds):
        """So often that in as many seconds its share of the processor is about that."""
        return 4 * (self.run + self.rest) < seconds


class Top:
    """A hook: asks again and again, from the first step on; answers holds those of all ranks."""

    def __init__(self, interval):
        self.interval, self.asked, self.answers = interval, None, []

    def __call__(self, job):
        if self.asked is None:
            if all(life.notes("committed") for life in job.now()):
                self._ask(job)
        elif self.asked.poll() is not None:
            answer = json.loads(self.asked.stdout.read() or "{}")
            self.asked.stdout.close()
            if answer and all(row["known"] and row["steps"] for row in answer["ranks"]):
                self.answers.append(answer)
            self.asked = None

    def end(self):
        """After the last one."""
        if self.asked:
            self.asked.communicate()

    def _ask(self, job):
        command = [LOCKSTEP, "top", "--json", "--interval", str(self.interval), job.cluster["worker"][0]]
        self.asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
