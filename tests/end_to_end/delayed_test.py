#!/usr/bin/env python3
"""LS_DELAYED: the bits follow from the delay alone, whatever the number of workers and servers, and whoever is lost; a
training that goes on from a checkpoint has those of one that was not disturbed; what cannot be is named."""
import os
import random
import signal
import subprocess
import tempfile
import unittest

from cluster import (ENDLESS, HIDDEN, LIMIT, LOCKSTEP, digest, expect_ends, newest_step, start_with_servers,
                     wait_for_line)

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *HIDDEN, "--limit", "500", "--batch-size", "128", "--no-validation",
         "--verbose", "-1", "--json", "--strategy", "parameter-server"]
RULES = [["--optimizer", "sgd"], ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov"],
         ["--optimizer", "adam", "--clip-norm", "0.01"], ["--optimizer", "rmsprop", "--momentum", "0.5", "--centered"],
         ["--optimizer", "lamb", "--global-clip-norm", "0.05", "--weight-decay", "0.01"]]
STEPS = 4  # of an epoch
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))


def start(workers, servers, options, **environment):
    """Four replicas."""
    return start_with_servers(workers, servers, [*TRAIN, "--devices", str(4 // workers), *options],
                              {"LOCKSTEP_REJOIN_TIMEOUT": "60", **environment}, plain=0)


def delayed(delay, *options):
    return [*options, "--consistency", "delayed", "--delay", str(delay)]


class Delayed(unittest.TestCase):
    def expect(self, results, wanted=None, lost=()):
        expect_ends(self, results, lost=lost)
        found = digest(results[("worker", 0)][1])
        if wanted:
            self.assertEqual(found, wanted)
        return found

    def test_the_bits_follow_from_the_delay_alone(self):
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw, found = random.Random(SEED), set()
        for delay in (0, 1, 2, 7):
            options = [*draw.choice(RULES), "--epochs", "2", *draw.choice(([], ["--accumulate", "3"]))]
            wanted = self.expect(start(1, 1, delayed(delay, *options)).finish())
            if not delay:
                self.expect(start(1, 1, options).finish(), wanted)
            found.add(wanted)
            for _ in range(2):
                more = ["--ps-replicas", draw.choice("123"), *draw.choice(([], ["--bytes-per-pack", "20000"]))]
                workers, servers, transport = draw.choice((1, 2, 4)), draw.choice((1, 2, 3, 5)), draw.choice(("auto", "tcp"))
                print("#", delay, workers, servers, transport, *options, *more)
                self.expect(start(workers, servers, delayed(delay, *options, *more), LOCKSTEP_TRANSPORT=transport).finish(), wanted)

    def disturb(self, options, servers, moments, disturb, every=20):
        """All tasks are killed when a checkpoint came after what disturbs an endless training. One worker goes on from there,
        to the bits of an undisturbed one."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            options = [*options, "--checkpoint-steps", str(every)]
            cluster = start(2, servers, [*options, *ENDLESS, "--checkpoint", folder])
            for index in range(servers):
                wait_for_line(cluster.tasks[("ps", index)].stderr, "keeps variables and %d moments" % moments)
            cluster.wait_for_step()
            disturb(cluster)
            cluster.wait_for_checkpoint(folder)
            cluster.kill_all()
            step = newest_step(folder)
            epochs = ["--epochs", str(step // STEPS + 2)]
            wanted = self.expect(start(1, 2, [*options, *epochs, "--checkpoint", other]).finish())
            self.assertFalse(os.listdir(other))
            again = start(4, 1, [*options, *epochs, "--checkpoint", folder]).finish()
            self.expect(again, wanted)
            self.assertIn("training goes on after step %d " % step, again[("worker", 0)][2])

    def test_a_lost_worker_or_server_costs_no_bit(self):
        def lose(cluster):
            cluster.tasks[("ps", 1)].kill()
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "2 parameter servers keep the variables")
            cluster.replace(1)
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "recovered: all")
        self.disturb(delayed(1, "--optimizer", "adam", "--ps-replicas", "2"), 3, 2, lose)

    def test_without_moments_the_workers_rebuild_a_part(self):
        def replace(cluster):
            cluster.replace(0, "ps", [LOCKSTEP, "serve"])
            wait_for_line(cluster.tasks[("ps", 0)].stderr, "keeps variables and 0 moments")
        self.disturb(delayed(2, "--optimizer", "sgd"), 1, 0, replace)

    def test_it_goes_on_from_a_checkpoint(self):
        """Nothing is under way where a checkpoint may be due, also where nobody reads it."""
        self.disturb(delayed(2, "--optimizer", "adam"), 2, 2, lambda cluster: None, every=3)

    def test_who_asks_stops_all(self):
        with tempfile.TemporaryDirectory() as folder:
            options = delayed(1, "--optimizer", "adam", *ENDLESS, "--checkpoint", folder)
            cluster = start(2, 1, options)
            wait_for_line(cluster.tasks[("ps", 0)].stderr, "keeps variables and 2 moments")
            cluster.tasks[("worker", 1)].send_signal(signal.SIGTERM)
            results = cluster.finish()
            self.assertEqual([results[("worker", index)][0] for index in (0, 1)], [143, 143], results)
            self.assertTrue(os.listdir(folder))

    def test_momentum_is_warned_of_once(self):
        for rule, words in ((["--optimizer", "adam"], "Adam and its like"), (["--momentum", "0.9"], "a momentum of 0.9 or more"),
                            (["--momentum", "0.5"], None)):
            results = start(2, 1, delayed(1, *rule)).finish()
            said = "".join(results[("worker", index)][2] for index in (0, 1))
            self.assertEqual(said.count("arXiv 1810.03264"), 1 if words else 0, said)
            self.assertIn(words or "", said)
            self.assertIn("a step's gradients are of the variables before the last 1 step", said)

    def test_what_cannot_be_is_named(self):
        for options, words in ((["--delay", "1"], "option '--delay' needs '--consistency delayed'"),
                               (["--consistency", "delayed", "--delay", "65"], "option '--delay' needs a whole number from 0 to 64")):
            done = subprocess.run([*TRAIN, *options], capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
