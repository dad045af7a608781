#!/usr/bin/env python3
"""What must be equal on all workers is compared before anybody waits for anybody: one error at once, the same on both, that
names the field, both values and both ranks. And a program that makes one call fewer than the others'."""
import os
import time
import unittest

from cluster import PACE, Cluster, train_command

COMMUNICATOR = [os.environ.get("SKIP_CALL", "build/tests/end_to_end/skip_call")]
TRAIN = train_command("--epochs", "2", "--limit", "500", "--no-validation", "--verbose", "0")
SOON = 10  # seconds; a tenth of one where nothing else runs
# (field, what rank 0 has, what rank 1 has) as the error says it, and the setting or the option that makes it so
SETTINGS = [("LOCKSTEP_ALGORITHM", "direct", "exchange"), ("LOCKSTEP_ALGORITHM", "auto", "halving-doubling"),
            ("LOCKSTEP_TRANSPORT", "tcp", "shm"), ("LOCKSTEP_TRANSPORT", "shm", "tcp")]
OPTIONS = [("communication", "--communication", "AUTO", "RING"), ("compression", "--compression", "none", "fp16"),
           ("bytes_per_pack", "--bytes-per-pack", "0", "65536"), ("threads_per_replica", "--threads-per-replica", "1", "2")]
LATER = [("first_bucket", "LOCKSTEP_FIRST_BUCKET", "65536", "131072"), ("bucket", "LOCKSTEP_BUCKET", "65536", "131072")]


class Agree(unittest.TestCase):
    def expect(self, field, values, commands, settings=({}, {})):
        with self.subTest(field=field, values=values, command=commands[0][:2]):
            cluster = Cluster(2, None)
            usual = cluster.environment
            started = time.monotonic()
            for index in (0, 1):
                cluster.environment = {**usual, **settings[index]}
                cluster.start(index, command=commands[index])
            results = cluster.finish()
            self.assertLess(time.monotonic() - started, SOON * PACE)
            wanted = "%s differs: '%s' on worker:0 (rank 0), '%s' on worker:1 (rank 1); start all workers" % (field, *values)
            for status, _, stderr in results.values():
                self.assertEqual(status, 2, stderr)
                self.assertIn(wanted, stderr.strip().splitlines()[-1])

    def test_settings(self):
        for name, *values in SETTINGS:
            for command in (TRAIN, [*COMMUNICATOR, "-1", "0", "alike"]):
                self.expect(name, values, (command, command), [{name: value} for value in values])

    def test_options(self):
        for field, option, *values in OPTIONS:
            self.expect(field, values, [[*TRAIN, option, value.lower()] for value in values])

    def test_ring_and_auto_of_communicators(self):
        self.expect("communication", ("RING", "AUTO"), [[*COMMUNICATOR, "-1", "0", how] for how in ("alike", "auto")])

    def test_what_only_fit_needs(self):
        for field, name, *values in LATER:
            self.expect(field, values, (TRAIN, TRAIN), [{name: value} for value in values])


class OneCallFewer(unittest.TestCase):
    """The one that is done closes with LS_OK; the others hear in their next call that it will not come."""

    def test_is_told_at_once(self):
        for workers, transport in ((2, "shm"), (3, "tcp")):
            with self.subTest(workers=workers, transport=transport):
                cluster = Cluster(workers, [*COMMUNICATOR, "1", "9", "alike"], {"LOCKSTEP_TRANSPORT": transport})
                started = time.monotonic()
                cluster.start_all()
                results = cluster.finish()
                self.assertLess(time.monotonic() - started, SOON * PACE)
                for index in {*range(workers)} - {1}:
                    status, _, stderr = results[("worker", index)]
                    self.assertNotEqual(status, 0, stderr)
                    self.assertRegex(stderr, r"all_reduce 'gradients' \(sequence \d+\): rank 1 has finished, and takes no part in it")
                self.assertNotEqual(results[("worker", 1)][0], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
