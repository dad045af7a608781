#!/usr/bin/env python3
"""LocalSGDStrategy by command: the same bits over every transport, and after a worker is lost between two meetings."""
import os
import signal
import subprocess
import tempfile
import unittest

from cluster import ENDLESS, HIDDEN, LIMIT, LOCKSTEP, Cluster, digest, expect_ends, newest_step, wait_for_line

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *HIDDEN, "--limit", "500", "--batch-size", "96", "--no-validation",
         "--verbose", "-1", "--json", "--optimizer", "adam", "--strategy", "local-sgd", "--sync-every", "3"]
OUTER = ["--outer-learning-rate", "0.7", "--outer-momentum", "0.9"]
STEPS = 6  # of an epoch


def start(workers, *options, **environment):
    cluster = Cluster(workers, [*TRAIN, *options], {"LOCKSTEP_REJOIN_TIMEOUT": "60", **environment})
    for index in range(workers):
        cluster.start(index)
    return cluster


class LocalSgd(unittest.TestCase):
    def digests(self, cluster):
        results = cluster.finish()
        expect_ends(self, results)
        return digest(results[("worker", 0)][1])

    def test_the_bits_do_not_depend_on_the_transport(self):
        seen = {self.digests(start(3, "--epochs", "2", *OUTER, LOCKSTEP_TRANSPORT=transport)) for transport in ("shm", "tcp")}
        self.assertEqual(len(seen), 1, seen)

    def replace(self, pattern, *options):
        """An endless training, of which the second worker is lost and has come back."""
        cluster = start(2, *options, *ENDLESS)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, pattern)
        cluster.replace(1)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "recovered: all")
        return cluster

    def check_replaced(self, pattern, *options):
        """All are killed after another checkpoint, and go on from there to the bits of an undisturbed training."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            options = [*options, "--checkpoint-steps", "12"]
            cluster = self.replace(pattern, *options, "--checkpoint", folder)
            cluster.wait_for_checkpoint(folder)
            for index in range(2):
                cluster.kill(index)
            cluster.finish()
            step = newest_step(folder)
            options += ["--epochs", str(step // STEPS + 3)]
            results = start(2, *options, "--checkpoint", folder).finish()
            self.assertEqual([results[("worker", index)][0] for index in range(2)], [0, 0], results)
            self.assertIn("training goes on after step %d " % step, results[("worker", 0)][2])
            self.assertEqual(digest(results[("worker", 0)][1]), self.digests(start(2, *options, "--checkpoint", other)))

    def test_a_lost_worker_brings_all_back_to_their_last_meeting(self):
        self.check_replaced("workers meet every 3 steps", *OUTER)

    def test_a_worker_with_moments_of_its_own_takes_another_ones(self):
        cluster = self.replace("each has its own moments", "--local-moments")
        cluster.kill(0, signal.SIGTERM)
        self.assertEqual([result[0] for result in cluster.finish().values()], [143, 143])

    def test_fragments_meet_beside_training_with_the_same_bits(self):
        options = ["--epochs", "2", *OUTER, "--sync-every", "4", "--fragments", "2", "--fragment-delay", "1", "--fragment-alpha", "0.5"]
        seen = {self.digests(start(3, *options, LOCKSTEP_TRANSPORT=transport)) for transport in ("shm", "tcp")}
        self.assertEqual(len(seen), 1, seen)
        self.check_replaced("2 fragments, each used 1 step after its meeting begins", *options)

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
            done = subprocess.run([*base, *options], env=nobody, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
