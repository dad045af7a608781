#!/usr/bin/env python3
"""LocalSGDStrategy by command: the same bits over every transport, and after a worker is lost between two meetings."""
import os
import re
import subprocess
import unittest

from cluster import LOCKSTEP, SANITIZED, Cluster, wait_for_line

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", "--limit", "500", "--batch-size", "96", "--no-validation",
         "--verbose", "-1", "--json", "--optimizer", "adam", "--strategy", "local-sgd", "--sync-every", "3"]
OUTER = ["--outer-learning-rate", "0.7", "--outer-momentum", "0.9"]
LONG = ["--epochs", "40" if SANITIZED else "150"]


def digest(out):
    return re.search(r'"weights_sha256": "(\w+)"', out).group(1)


def start(workers, *options, **environment):
    cluster = Cluster(workers, [*TRAIN, *options], {"LOCKSTEP_REJOIN_TIMEOUT": "60", **environment})
    for index in range(workers):
        cluster.start(index)
    return cluster


class LocalSgd(unittest.TestCase):
    def digests(self, cluster):
        results = cluster.finish()
        for key, (status, _, stderr) in results.items():
            self.assertEqual(status, 0, "%s: %s" % (key, stderr))
        return digest(results[("worker", 0)][1])

    def test_the_bits_do_not_depend_on_the_transport(self):
        seen = {self.digests(start(3, "--epochs", "2", *OUTER, LOCKSTEP_TRANSPORT=transport)) for transport in ("shm", "tcp", "grpc")}
        self.assertEqual(len(seen), 1, seen)

    def test_a_lost_worker_brings_all_back_to_their_last_meeting(self):
        wanted = self.digests(start(2, *LONG, *OUTER))
        cluster = start(2, *LONG, *OUTER)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "workers meet every 3 steps")
        cluster.replace(1)
        self.assertEqual(self.digests(cluster), wanted)

    def test_a_worker_with_moments_of_its_own_takes_another_ones(self):
        cluster = start(2, *LONG, "--local-moments")
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "each has its own moments")
        cluster.replace(1)
        self.digests(cluster)

    def test_fragments_meet_beside_training_with_the_same_bits(self):
        options = ["--epochs", "2", *OUTER, "--sync-every", "4", "--fragments", "2", "--fragment-delay", "1", "--fragment-alpha", "0.5"]
        seen = {self.digests(start(3, *options, LOCKSTEP_TRANSPORT=transport)) for transport in ("shm", "tcp", "grpc")}
        self.assertEqual(len(seen), 1, seen)
        wanted = self.digests(start(2, *options, *LONG))
        cluster = start(2, *options, *LONG)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "2 fragments, each used 1 step after its meeting begins")
        cluster.replace(1)
        self.assertEqual(self.digests(cluster), wanted)

    def test_what_does_not_fit_is_a_usage_error(self):
        nobody = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        base = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits"]
        for options, words in ((["--sync-every", "2"], "'--sync-every' needs '--strategy local-sgd'"),
                               (["--strategy", "local-sgd"], "needs '--sync-every STEPS'"),
                               (["--strategy", "mirrored", "--sync-every", "2"], "'--sync-every' needs '--strategy local-sgd'"),
                               ([*TRAIN[-4:], "--outer-momentum", "0.9"], "needs '--outer-learning-rate RATE'"),
                               ([*TRAIN[-4:], "--fragments", "2"], "sync_every 3 is no multiple of fragments 2"),
                               ([*TRAIN[-4:], "--fragment-delay", "3"], "fragment_delay 3 is not in 0 .. 2"),
                               (["--fragments", "2"], "'--fragments' needs '--sync-every STEPS'"),
                               ([*TRAIN[-4:], "--compression", "fp16"], "compression fp16 would round the variables")):
            done = subprocess.run([*base, *options], env=nobody, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
