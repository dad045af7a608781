"""Rounds of a table: each measures all programs once, in turns, after the machine has become quiet.

A measurement of a peer that fails is named and costs its cell, not the table; a peer that has never worked is not tried
again. Lockstep's own failure ends the benchmark.
"""
import os
import statistics
import time

from run import Failure, positive, say

QUIET = 0.5  # processors that others keep busy


class Contender:
    """One program of a table. own: of Lockstep. Says by title() which program fails, and by run() gives one result."""

    own = False

    def __init__(self, options):
        self.options, self.results, self.failures, self.given_up = options, [], [], False

    def attempt(self, action, *arguments):
        """What action returns; None where a peer fails in it."""
        try:
            return action(*arguments)
        except Failure as failure:
            if self.own:
                raise
            self.failures.append(failure)
            say(f"  {self.title()}: failed: {failure}")

    def measure(self):
        if self.given_up:
            return
        result = self.attempt(self.run)
        if result is None:
            self.given_up = not self.results
        else:
            self.results.append(result)

    def median(self, key):
        return statistics.median(result[key] for result in self.results)


def busy_processors(seconds=1.0):
    """How many the machine keeps busy while the benchmark waits."""
    def busy():
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
        return user + nice + system + irq + softirq

    before = busy()
    time.sleep(seconds)
    return (busy() - before) / os.sysconf("SC_CLK_TCK") / seconds


def wait_until_quiet(seconds):
    """How many processors others keep busy at last."""
    deadline, told = time.monotonic() + seconds, False
    while (others := busy_processors()) > QUIET and time.monotonic() < deadline:
        if not told:
            say(f"  waiting up to {seconds:g} s (--wait): others keep {others:.1f} processors busy")
        told = True
    return others


def add_wait_option(parser):
    parser.add_argument("--wait", type=positive(float), default=60,
                        help="seconds to wait, before each round, for other programs to end (default 60)")


def measure_in_rounds(options, contenders):
    """The most processors that others kept busy before a round."""
    others = []
    for number in range(options.rounds):
        others.append(wait_until_quiet(options.wait))
        say(f"round {number + 1} of {options.rounds}")
        for contender in contenders:
            contender.measure()
    return max(others)


def describe_run(machine, versions, others):
    """The line above a table."""
    names = ", ".join(f"{name} {version}" for name, version in versions.items()) or "WITHOUT PEERS: no comparison"
    busy = f"; OTHERS KEPT {others:.1f} PROCESSORS BUSY: no result" if others > QUIET else ""
    return "; ".join((names, machine["lockstep"], f"{machine['cpu']}, {machine['cores']} cores", machine["system"])) + busy


def name_missing(contenders, rounds):
    """Lines below a table: which cells are of fewer rounds, and why."""
    return [f"{each.title()}: {len(each.results)} of {rounds} rounds; {str(each.failures[-1]).splitlines()[0]}"
            for each in contenders if each.failures]
