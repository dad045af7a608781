"""Workers on hosts of their own: network namespaces joined by links that a test cuts, delays or makes lose packets
(bench/hosts.py). Needs root."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import hosts  # noqa: E402
from run import Failure  # noqa: E402,F401

PORT = 2222
DELAY_SWITCH = os.environ.get("DELAY_SWITCH", "build/bench/delay_switch")
PLAIN = hosts.Link("plain", 0)
LOSSY = hosts.Link("lossy", 100e6, delay_us=100000, loss=0.05)
MOVED = hosts.SUBNET + "%d"  # an address that no task has


class Network(hosts.Hosts):
    """A context: a host for each worker, and a spare one if wanted. Jobs may use it one after the other."""
    environment = {"LOCKSTEP_TRANSPORT": "tcp"}  # these hosts have one memory

    def __init__(self, workers, link=PLAIN, with_spare=False):
        super().__init__(workers + with_spare, link, DELAY_SWITCH)
        self.places = list(range(workers))  # the number of each rank's host
        self.spare = workers

    @property
    def addresses(self):
        return ["%s:%d" % (hosts.host_address(number), PORT) for number in range(len(self.places))]

    @property
    def children(self):
        return {background.process.pid for background in self.held}

    def enter(self, rank, command):
        return self[self.places[rank]].enter_network(command)

    def move(self, rank):
        """The task's address moves to the spare host, as a service's does, and its host is the spare one now; its
        processes stay where they are."""
        here, there = self[self.places[rank]], self[self.spare]
        address = here.address
        here.set_address(MOVED % (100 + self.places[rank]))
        there.set_address(address)
        self.places[rank], self.spare = self.spare, self.places[rank]


class Cutter:
    """A hook: who stops itself is woken at once, but cut off; its link heals after that many seconds."""

    def __init__(self, seconds):
        self.seconds, self.rank, self.since, self.healed = seconds, None, None, False

    def __call__(self, job):
        if self.rank is None:
            self._cut(job)
        elif time.monotonic() > self.since + self.seconds:
            self.heal(job)

    def heal(self, job):
        if self.rank is not None and not self.healed:
            self.healed = True
            job.network.set_link(job.network.places[self.rank], "up")

    def _cut(self, job):
        for life in job.now():
            if life.status is None and life.is_stopped():
                job.network.set_link(job.network.places[life.rank], "down")
                life.wake()
                self.rank, self.since = life.rank, time.monotonic()
                return


class Fencer:
    """A hook: when a worker has stopped itself, its address moves to the spare host, where its task is started anew; when
    the group has gone on with that one, the old one wakes behind another address and hears so. Then its task is made free
    again: the new one is killed, and the address moves back. Or taken=True: all others but the new one are lost, and one
    comes back to find both; the rest comes back when the old one has ended."""

    def __init__(self, rank, taken=False):
        self.rank, self.taken = rank, taken
        self.old = self.new = self.back = None
        self.stages = [self._move, self._replace, self._wake, self._take if taken else self._free]
        self.stages += [self._end] if taken else []

    def __call__(self, job):
        """Each stage returns whether it could be done."""
        if self.stages and self.stages[0](job):
            self.stages.pop(0)

    def faults(self):
        if self.stages:
            return ["the round ended before %s" % self.stages[0].__name__]
        if self.taken and self.old.status != 2:
            return ["the old process ended with %s" % self.old.status]
        return [] if self.taken or "took the state" in self.old.errors() else ["the old process has not joined as new"]

    def _move(self, job):
        self.old = job.lives[self.rank][0]
        if not self.old.is_stopped():
            return False
        job.network.move(self.rank)
        return True

    def _replace(self, job):
        if not any("was lost" in lives[0].errors() for rank, lives in job.lives.items() if rank != self.rank):
            return False
        self.new = job.start(self.rank)
        return True

    def _wake(self, job):
        if not self.new.notes("entered"):
            return False
        self.old.wake()
        return True

    def _is_told(self):
        return "went on without this process" in self.old.errors()

    def _free(self, job):
        if not self._is_told():
            return False
        self.new.kill()
        job.network.move(self.rank)
        job.lives[self.rank] = [self.new, self.old]
        return True

    def _take(self, job):
        if not self._is_told():
            return False
        job.restart = False
        others = [rank for rank in job.lives if rank != self.rank]
        for rank in others:
            job.lives[rank][-1].kill()
        self.back = job.start(others[-1])
        return True

    def _end(self, job):
        if self.old.status is None:
            return False
        job.restart = self.back.status is None
        return True
