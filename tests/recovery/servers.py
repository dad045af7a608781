"""Parameter servers beside the workers of a job."""
import os
import random
import signal
import subprocess
import time
from collections import Counter

from job import WORKER, Notes

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
SERVE, WATCHED = (LOCKSTEP, "serve"), (WORKER, "serve")  # WATCHED reaches points, and hurts itself at them
END = 10  # seconds that a server may take after the workers
START = 1_000_000_000  # nanoseconds in which a server that is started has met the workers
LEAST, MOST = 0.1, 0.6  # seconds between two losses


class Servers:
    """A hook: starts as many servers, kills one of them at random moments, and starts it anew at once. Of servers that keep
    variables (keeps) one is lost when all have their parts: two copies of each element are enough then. Or it loses none but
    those that kill themselves: the job's at may have points of "ps:0", for WATCHED ones."""

    def __init__(self, count, seed, keeps=False, loses=True, command=SERVE):
        self.count, self.random, self.keeps, self.loses = count, random.Random(seed), keeps, loses
        self.restart, self.gone = True, 0  # gone: those that are lost now
        self.command, self.lives = list(command), Counter()
        self.processes, self.kills, self.next = {}, 0, None
        self.started = {}  # nanoseconds of the monotonic clock

    def _log(self, job, index):
        return os.path.join(job.folder.name, "ps.%d.%d.err" % (index, self.kills))

    def _start(self, job, index):
        path = self._log(job, index)
        own = {"TF_CONFIG": job.config_of("ps", index), "LOCKSTEP_TEST_TIMES": path + ".times",
               "LOCKSTEP_TEST_AT": job.point_of("ps:%d" % index, self.lives[index])}
        self.lives[index] += 1
        self.started[index] = time.monotonic_ns()
        with open(path, "w", encoding="utf-8") as err:
            self.processes[index] = path, subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                                           env={**job.environment, **own})

    def reached(self, index):
        """The names of all points that it reached, in their order."""
        return Notes(self.processes[index][0] + ".times").read().names

    def _start_lost(self, job):
        """Not those that had heard that the workers have finished: they have ended by themselves."""
        lost = [index for index, (_, process) in self.processes.items() if process.poll() == -signal.SIGKILL]
        self.gone = len(lost)
        for index in lost if self.restart else ():
            self.kills += 1
            self._start(job, index)

    def end(self):
        for _, process in self.processes.values():
            process.kill()
            process.wait()

    def _has_parts(self):
        for path, _ in self.processes.values():
            with open(path, encoding="utf-8") as log:
                text = log.read()
            if "keeps variables" not in text and "keeps tables" not in text:
                return False
        return True

    def _lose(self):
        process = self.processes[self.random.randrange(self.count)][1]
        process.kill()
        process.wait()

    def __call__(self, job):
        now = time.monotonic()
        if self.next is None:
            for index in range(self.count):
                self._start(job, index)
        elif self.loses and now > self.next and (not self.keeps or self._has_parts()):
            self._lose()
        self._start_lost(job)
        if self.next is None or now > self.next:
            self.next = now + self.random.uniform(LEAST, MOST)

    def _came_late(self, job, index):
        """It was started when the workers were about to leave, and waited as long as one that had slept meanwhile."""
        exits = [note[0] for lives in job.lives.values() for life in lives for note in life.notes("exit")]
        slept = any(job.ended_without(life) for life in job.now())
        return slept and bool(exits) and self.started[index] > min(exits) - START

    def faults(self, job):
        """They end with the workers; one that no worker was there to take in any more does not, and is killed."""
        found, deadline = [], time.monotonic() + END
        for index, (path, process) in self.processes.items():
            try:
                status = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = "no status"
            with open(path, encoding="utf-8") as log:
                text = log.read()
            late = "serves" not in text and (status == "no status" or (status == 138 and self._came_late(job, index)))
            if status and not late:
                found.append("ps:%d ended with %s:\n%s" % (index, status, text[-3000:]))
        return found
