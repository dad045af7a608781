#!/usr/bin/env python3
"""Asynchronous training on parameter servers: one worker has the bits of mirrored training, a record of the order gives the
bits again, every batch is trained once also where tasks are lost, and what cannot be is named."""
import json
import os
import random
import re
import subprocess
import tempfile
import unittest

from cluster import HIDDEN, LIMIT, LOCKSTEP, PACE, expect_ends, last_json, start_with_servers, wait_for_line

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *HIDDEN, "--limit", "500", "--batch-size", "20", "--no-validation",
         "--verbose", "-1", "--json"]
ASYNC = ["--strategy", "parameter-server", "--consistency", "async"]
RULES = [["--optimizer", "sgd"], ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov"],
         ["--optimizer", "adam", "--clip-value", "0.01"], ["--optimizer", "adamw"],
         ["--optimizer", "rmsprop", "--momentum", "0.5", "--centered"], ["--optimizer", "sgd", "--accumulate", "3"]]
LONG = 200  # epochs; the first losses come within a few steps
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))


def start(workers, servers, options, **environment):
    return start_with_servers(workers, servers, [*TRAIN, *ASYNC, *options], environment)


def outcome(results, index=0):
    return last_json(results[("worker", index)][1])


class Async(unittest.TestCase):
    def expect_whole(self, got, epochs):
        self.assertEqual(got["steps"], 25 * epochs)
        self.assertEqual(got["pushes_applied"] + got["pushes_dropped"], 25 * epochs)

    def test_one_worker_has_the_bits_of_mirrored_training(self):
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw = random.Random(SEED)
        for rule in draw.sample(RULES, 3):
            devices, servers = str(draw.choice((1, 3))), draw.choice((1, 2, 3))
            options = ["--epochs", "2", "--devices", devices, *rule]
            print("#", servers, *options)
            done = subprocess.run([*TRAIN, "--strategy", "mirrored", *options], capture_output=True, text=True, check=True, timeout=2 * LIMIT)
            results = start(1, servers, [*options, "--ps-replicas", "2"]).finish()
            expect_ends(self, results)
            self.assertEqual(outcome(results)["weights_sha256"], json.loads(done.stdout)["weights_sha256"])
            self.assertEqual(outcome(results)["loss"], json.loads(done.stdout)["loss"])
            self.assertEqual(outcome(results)["staleness_max"], 0)

    def test_one_epoch_has_a_pace(self):
        self.assertGreater(outcome(start(2, 1, ["--epochs", "1"]).finish())["samples_per_second"], 0)

    def test_a_record_gives_the_same_bits(self):
        draw = random.Random(SEED)
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "order")
            servers, transport = draw.choice((1, 2, 3)), draw.choice(("auto", "tcp"))
            options = ["--epochs", "2", *draw.choice(RULES)]
            print("# LOCKSTEP_TEST_SEED=%d" % SEED, servers, transport, *options)
            first = start(3, servers, options, LOCKSTEP_RECORD=record, LOCKSTEP_TRANSPORT=transport).finish()
            expect_ends(self, first)
            again = start(4, servers, options, LOCKSTEP_REPLAY=record).finish()
            expect_ends(self, again)
            for name in ("weights_sha256", "staleness_max", "staleness_mean"):
                self.assertEqual(outcome(again)[name], outcome(first)[name], name)
            fewer = start(2, servers, options, LOCKSTEP_REPLAY=record).finish()
            self.assertNotEqual(fewer[("worker", 0)][0], 0)
            self.assertIn("batches of 3 workers on %d parameter servers" % servers, fewer[("worker", 0)][2])

    def test_a_bound_holds_and_what_is_older_is_dropped_or_scaled(self):
        """Of three workers one is held up. With bound 1 nobody makes more than two batches while another one makes one."""
        results = start(3, 1, ["--epochs", "4", "--staleness", "1"]).finish()
        expect_ends(self, results)
        self.expect_whole(outcome(results), 4)
        self.assertLessEqual(outcome(results)["staleness_max"], 2 * 2 * 2)
        for rule in (["--on-stale", "drop", "--max-staleness", "1"], ["--on-stale", "scale"]):
            results = start(3, 2, ["--epochs", "4", *rule]).finish()
            expect_ends(self, results)
            self.expect_whole(outcome(results), 4)
            if rule[1] == "scale":
                self.assertEqual(outcome(results)["pushes_dropped"], 0)
            elif outcome(results)["staleness_max"] > 1:
                self.assertGreater(outcome(results)["pushes_dropped"], 0)

    def test_no_batch_is_lost_or_repeated_when_workers_and_servers_are(self):
        options = ["--epochs", str(LONG), "--optimizer", "adam", "--ps-replicas", "2"]
        cluster = start(3, 3, options, LOCKSTEP_PS_WAIT="1", LOCKSTEP_HEARTBEAT_LIMIT="%g" % PACE, LOCKSTEP_HEARTBEAT_INTERVAL="0.1")
        for index in range(3):
            wait_for_line(cluster.tasks[("ps", index)].stderr, "keeps variables and 2 moments")
        cluster.wait_for_step()
        cluster.tasks[("worker", 2)].kill()
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "training goes on|goes on with|recovered|generation 2|2 workers")
        cluster.tasks[("ps", 0)].kill()
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "2 parameter servers keep the variables")
        results = cluster.finish()
        expect_ends(self, results, lost=[("worker", 2), ("ps", 0)])
        self.expect_whole(outcome(results), LONG)

    def test_a_checkpoint_goes_to_mirrored_training_and_back(self):
        wanted = subprocess.run([*TRAIN, "--strategy", "mirrored", "--epochs", "4", "--optimizer", "adam"], capture_output=True,
                                text=True, check=True, timeout=2 * LIMIT)
        with tempfile.TemporaryDirectory() as folder:
            options = ["--optimizer", "adam", "--checkpoint", folder, "--checkpoint-retain", "--checkpoint-steps", "10"]
            expect_ends(self, start(1, 2, ["--epochs", "2", *options]).finish())
            subprocess.run([*TRAIN, "--strategy", "mirrored", "--epochs", "3", *options], capture_output=True, check=True, timeout=2 * LIMIT)
            results = start(1, 3, ["--epochs", "4", *options]).finish()
            expect_ends(self, results)
            self.assertEqual(outcome(results)["weights_sha256"], json.loads(wanted.stdout)["weights_sha256"])

    def test_checkpoints_that_do_not_divide_what_is_accumulated_repeat_no_batch(self):
        options = ["--epochs", "2", "--accumulate", "3"]
        done = subprocess.run([*TRAIN, "--strategy", "mirrored", *options], capture_output=True, text=True, check=True, timeout=2 * LIMIT)
        with tempfile.TemporaryDirectory() as folder:
            results = start(1, 2, [*options, "--checkpoint", folder, "--checkpoint-steps", "10"]).finish()
            expect_ends(self, results)
            for name in ("weights_sha256", "loss", "steps"):
                self.assertEqual(outcome(results)[name], json.loads(done.stdout)[name], name)

    def test_what_cannot_be_is_named(self):
        for options, words in ((["--consistency", "sync", "--staleness", "3"], "'--staleness' needs '--consistency async'"),
                               ([*ASYNC, "--max-staleness", "3"], "'--max-staleness' needs '--on-stale drop'"),
                               ([*ASYNC, "--on-stale", "drop"], "max_staleness 0 is needed by LS_STALE_DROP")):
            done = subprocess.run([*TRAIN, "--strategy", "parameter-server", *options], capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        config = json.dumps({"cluster": {"worker": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]}, "task": {"type": "worker", "index": 0}})
        done = subprocess.run([*TRAIN, *ASYNC, "--compression", "fp16"], capture_output=True, text=True, timeout=LIMIT,
                              env={**os.environ, "TF_CONFIG": config})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("sends gradients whole: leave compression fp16 out", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            results = start(1, 1, [], LOCKSTEP_RECORD=folder).finish()
            self.assertNotEqual(results[("worker", 0)][0], 0)
            self.assertRegex(results[("worker", 0)][2], re.escape("LOCKSTEP_RECORD='%s': Is a directory" % folder))


if __name__ == "__main__":
    unittest.main()
