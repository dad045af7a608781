#!/usr/bin/env python3
"""Twelve workers, of which some make another call than the others: one named error on all of them, soon, also where no
fingerprint goes between those that differ."""
import os
import random
import time
import unittest

from cluster import LIMIT, Cluster

UNLIKE_CALLS = os.environ.get("UNLIKE_CALLS", "build/tests/end_to_end/unlike_calls")
WORKERS = 12
STALL = 2  # seconds that a call waits before the others are asked
SOON = 10
TWO_ROOTS = 0  # a seed: half of the ranks take another one for the root of a broadcast, and nobody sees it
RANDOM = 6


class UnlikeCalls(unittest.TestCase):
    def run_unlike(self, seed, transport):
        """How long it took. The collective timeout is not what ends it. Who hears of it from another one that ends may end
        with that one's failure (138)."""
        cluster = Cluster(WORKERS, [UNLIKE_CALLS, str(seed)],
                          {"LOCKSTEP_TRANSPORT": transport, "LOCKSTEP_COLLECTIVE_TIMEOUT": "120"})
        begun = time.monotonic()
        cluster.start_all()
        results = cluster.finish(timeout=2 * LIMIT)
        for task, (status, _, stderr) in results.items():
            self.assertIn(status, (2, 138), (seed, transport, task, stderr))
            self.assertRegex(stderr, r"differs: .* on rank \d+, .* on rank \d+; every rank must make the same calls")
        return time.monotonic() - begun

    def test_two_roots_are_named_though_no_fingerprint_shows_them(self):
        seconds = self.run_unlike(TWO_ROOTS, "tcp")
        self.assertGreater(seconds, STALL)  # else this seed shows nothing
        self.assertLess(seconds, SOON)

    def test_random_calls(self):
        for _ in range(RANDOM):
            seed, transport = random.randrange(1, 1 << 30), random.choice(["tcp", "auto"])
            with self.subTest(seed=seed, transport=transport):
                self.assertLess(self.run_unlike(seed, transport), SOON)


if __name__ == "__main__":
    unittest.main(verbosity=2)
