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
