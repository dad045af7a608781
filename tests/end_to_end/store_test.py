#!/usr/bin/env python3
"""ParameterServerStrategy: servers that keep the variables give the bits of mirrored training, also when tasks are lost;
its checkpoints are those of mirrored training; what cannot be is named."""
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import (ENDLESS, HIDDEN, LIMIT, LOCKSTEP, PACE, digest, expect_ends, expect_undisturbed, newest_step,
                     start_with_servers, wait_for_line)

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *HIDDEN, "--limit", "500", "--batch-size", "128", "--no-validation",
         "--verbose", "-1", "--json"]
MIRRORED = [*TRAIN, "--strategy", "mirrored", "--devices", "4"]
STORE = ["--strategy", "parameter-server"]
RULES = [["--optimizer", "sgd"], ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov"],
         ["--optimizer", "adam", "--clip-norm", "0.01"], ["--optimizer", "adamw", "--global-clip-norm", "0.02"],
         ["--optimizer", "rmsprop", "--momentum", "0.5", "--centered"],
         ["--optimizer", "lamb", "--global-clip-norm", "0.05", "--weight-decay", "0.01"]]
STEPS = 4  # of an epoch
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))


def plain(options):
    """The digest of four replicas in one process."""
    done = subprocess.run([*MIRRORED, *options], capture_output=True, text=True, check=True,
                          timeout=2 * LIMIT)
    return digest(done.stdout)


def start(workers, servers, options, **environment):
    return start_with_servers(workers, servers, [*TRAIN, "--devices", str(4 // workers), *options],
                              {"LOCKSTEP_REJOIN_TIMEOUT": "60", **environment})


class Store(unittest.TestCase):
    def expect(self, results, wanted, lost=()):
        expect_ends(self, results, lost=lost)
        self.assertEqual(digest(results[("worker", 0)][1]), wanted)

    def test_servers_give_the_bits_of_mirrored(self):
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw = random.Random(SEED)
        for rule in draw.sample(RULES, 3):
            wanted = plain(["--epochs", "2", *rule])
            workers, servers = draw.choice((1, 2, 4)), draw.choice((1, 2, 3, 5))
            options = ["--epochs", "2", *rule, *STORE, "--ps-replicas", draw.choice("123"), *draw.choice(([], ["--bytes-per-pack", "20000"]))]
            transport = draw.choice(("auto", "tcp"))
            print("#", workers, servers, transport, *options)
            self.expect(start(workers, servers, options, LOCKSTEP_TRANSPORT=transport).finish(), wanted)

    def test_a_hybrid_without_tables_is_mirrored(self):
        options = ["--epochs", "2", "--optimizer", "lamb", "--global-clip-norm", "0.05"]
        results = start(2, 2, [*options, *STORE, "--hybrid"], LOCKSTEP_ALGORITHM="assist").finish()
        self.expect(results, plain(options))
        self.assertIn("2 parameter servers keep sparse tables, and help to add", results[("worker", 0)][2])

    def test_gradients_are_rounded_as_between_workers(self):
        options = ["--epochs", "2", "--optimizer", "adam", "--compression", "fp16"]
        wanted = start(2, 0, options, LOCKSTEP_TRANSPORT="tcp").finish()
        self.expect(start(2, 3, [*options, *STORE, "--ps-replicas", "2"], LOCKSTEP_TRANSPORT="tcp").finish(),
                    digest(wanted[("worker", 0)][1]))

    def disturb(self, workers, servers, options, disturb, *more, lost=(), **environment):
        """Its first checkpoint is written when it is stopped, after it was disturbed."""
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = ["--checkpoint", folder, "--checkpoint-steps", "1000000"]
            cluster = start(workers, servers, [*options, *STORE, *more, *ENDLESS, *checkpoint], **environment)
            cluster.wait_for_step()
            disturb(cluster)
            self.assertEqual(os.listdir(folder), [".lock"])
            cluster.kill(int(("worker", 0) in lost), signal.SIGTERM)
            expect_ends(self, cluster.finish(), 143, lost)
            expect_undisturbed(self, [*MIRRORED, *options], folder, STEPS)

    def test_a_lost_server_costs_nothing_where_another_one_has_its_part(self):
        def lose(cluster):
            cluster.tasks[("ps", 1)].kill()
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "2 parameter servers keep the variables")
        self.disturb(2, 3, ["--optimizer", "adam"], lose, "--ps-replicas", "2", lost=[("ps", 1)])

    def test_a_server_that_is_late_has_what_another_one_has_lost(self):
        """Both copies of some elements are away at once: on one that is lost, and on one that is frozen for a while."""
        def freeze_and_lose(cluster):
            cluster.tasks[("ps", 2)].send_signal(signal.SIGSTOP)
            cluster.replace(0, "ps", [LOCKSTEP, "serve"])
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "of 3 that are listed the 2 here lack its moments")
            cluster.tasks[("ps", 2)].send_signal(signal.SIGCONT)
            wait_for_line(cluster.tasks[("ps", 0)].stderr, "keeps variables and 2 moments")
        self.disturb(2, 3, ["--optimizer", "adam"], freeze_and_lose, "--ps-replicas", "2", LOCKSTEP_PS_WAIT="30",
                     LOCKSTEP_HEARTBEAT_LIMIT="%g" % PACE, LOCKSTEP_HEARTBEAT_INTERVAL="0.1")

    def test_a_worker_comes_back_to_what_the_servers_keep(self):
        def replace(cluster):
            cluster.replace(1)
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "recovered: all")
        self.disturb(2, 2, ["--optimizer", "lamb"], replace)

    def test_a_server_without_a_stream_to_the_next_leader_is_waited_for(self):
        """It has the only copy of its part, and its one stream was to the worker that is lost."""
        def lose(cluster):
            cluster.tasks[("ps", 1)].send_signal(signal.SIGSTOP)
            cluster.tasks[("worker", 0)].kill()
            wait_for_line(cluster.tasks[("worker", 1)].stderr, "waiting for .*ps:1")
            cluster.tasks[("ps", 1)].send_signal(signal.SIGCONT)
            self.assertIn("serves", wait_for_line(cluster.tasks[("ps", 1)].stderr, "serves 3 workers|joins anew"))
            wait_for_line(cluster.tasks[("worker", 1)].stderr, "recovered: 3 of 4")
        self.disturb(4, 2, ["--optimizer", "adam"], lose, lost=[("worker", 0)], LOCKSTEP_CONTROL_WINDOW="1", LOCKSTEP_ELASTIC="1:4",
                     LOCKSTEP_REJOIN_TIMEOUT="0", LOCKSTEP_PS_WAIT="30", LOCKSTEP_REPORT_INTERVAL="0.2",
                     LOCKSTEP_HEARTBEAT_LIMIT="%g" % PACE, LOCKSTEP_HEARTBEAT_INTERVAL="0.1")

    def test_without_moments_the_workers_rebuild_a_part(self):
        def replace(cluster):
            cluster.replace(0, "ps")
            wait_for_line(cluster.tasks[("ps", 0)].stderr, "keeps variables and 0 moments")
        self.disturb(2, 1, ["--optimizer", "sgd"], replace)

    def test_with_lost_moments_all_go_back_to_the_checkpoint_in_place(self):
        """A server is lost for good, then one that comes back has lost its moments."""
        lost = "(a parameter server|parameter server 1 of 2) was lost, .* the optimizer's moments .*: all go back to the newest checkpoint"
        with tempfile.TemporaryDirectory() as folder:
            cluster = start(2, 2, ["--optimizer", "adam", *STORE, "--checkpoint", folder, *ENDLESS], LOCKSTEP_PS_WAIT="1")
            for disturb in (lambda: cluster.tasks[("ps", 1)].kill(), lambda: cluster.replace(0, "ps")):
                cluster.wait_for_checkpoint(folder)
                disturb()
                for words in (lost, "training goes on after step [1-9]"):
                    wait_for_line(cluster.tasks[("worker", 0)].stderr, words)
            cluster.kill(1, signal.SIGTERM)
            expect_ends(self, cluster.finish(), 143, [("ps", 1)])
            expect_undisturbed(self, [*MIRRORED, "--optimizer", "adam"], folder, STEPS)

    def test_lost_moments_end_a_training_without_checkpoints(self):
        cluster = start(2, 2, ["--optimizer", "adam", *STORE, *ENDLESS], LOCKSTEP_PS_WAIT="1")
        cluster.wait_for_step(2)
        cluster.tasks[("ps", 1)].kill()
        results = cluster.finish()
        for key in (("worker", 0), ("worker", 1), ("ps", 0)):
            self.assertEqual(results[key][0], 138, "%s: %s" % (key, results[key][2]))
        self.assertRegex(results[("worker", 0)][2], "parameter server 1 of 2 was lost, and with it the only copy of the optimizer's "
                                                    "moments after step [0-9]+: start all tasks again, .* --ps-replicas 2")

    def test_a_checkpoint_is_that_of_mirrored_training(self):
        wanted = plain(["--epochs", "4", "--optimizer", "adam"])
        for first, second in (((2, 2), (2, 0)), ((4, 0), (2, 3))):
            with tempfile.TemporaryDirectory() as folder:
                for epochs, (workers, servers) in (("2", first), ("4", second)):
                    results = start(workers, servers, ["--optimizer", "adam", "--epochs", epochs, "--checkpoint", folder,
                                                       "--checkpoint-retain", "--checkpoint-steps", "3",
                                                       *(STORE if servers else [])]).finish()
                self.expect(results, wanted)

    def test_a_part_that_does_not_fit_is_named_with_what_would_do(self):
        options = ["--optimizer", "adam", "--hidden", "128,64", "--epochs", "2", "--bytes-per-pack", "20000", *STORE]
        limit = {"LOCKSTEP_MEMORY_LIMIT": str(2 * (256 << 10) + 1100000)}
        began = time.monotonic()
        results = start(2, 1, options, **limit).finish()
        self.assertLess(time.monotonic() - began, 20 * PACE)
        for key, (status, _, stderr) in results.items():
            self.assertNotEqual(status, 0, key)
            self.assertIn("RESOURCE_EXHAUSTED: rank 2, a parameter server of 1, needs", stderr, key)
            self.assertIn("LOCKSTEP_MEMORY_LIMIT allows %s" % limit["LOCKSTEP_MEMORY_LIMIT"], stderr, key)
        enough = int(re.search(r"(\d+) parameter servers suffice", results[("worker", 0)][2]).group(1))
        self.assertGreater(enough, 2)
        self.expect(start(2, enough, options, **limit).finish(), plain(options[:6]))
        one_fewer = start(2, enough - 1, options, **limit).finish()
        self.assertIn("%d parameter servers suffice" % enough, one_fewer[("worker", 1)][2])

    def test_what_cannot_be_is_named(self):
        nobody = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        workers = json.dumps({"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}})
        for environment, options, words in (
                ({}, [], "there is no TF_CONFIG"), ({"TF_CONFIG": workers}, [], "TF_CONFIG has no ps: add cluster.ps"),
                ({}, ["--communication", "ring"], "communication RING is between workers"),
                ({}, ["--hybrid", "--consistency", "async"], "hybrid goes with consistency LS_SYNC, and it is async")):
            done = subprocess.run([*TRAIN, *STORE, *options], env={**nobody, **environment}, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            results = start(1, 1, [*STORE, "--tensorboard", folder, "--tensorboard-histograms", "1", "--tensorboard-gradients"]).finish()
            self.assertEqual(results[("worker", 0)][0], 2, results)
            self.assertIn("TensorBoard: gradients: parameter servers add them", results[("worker", 0)][2])
        results = start(1, 1, STORE, LOCKSTEP_PS="off").finish()
        self.assertEqual(results[("worker", 0)][0], 2)
        self.assertIn("LOCKSTEP_PS is off, and the ps tasks keep the variables", results[("worker", 0)][2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
