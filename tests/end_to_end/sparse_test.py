#!/usr/bin/env python3
"""Embedding tables whose rows are on parameter servers alone: the bits of mirrored training where the optimizer has no
memory, and for every optimizer the same bits for all layouts and after losses; checkpoints of the same format."""
import functools
import os
import random
import subprocess
import tempfile
import unittest

from cluster import LIMIT, LOCKSTEP, expect_ends, half_of, last_json, start_with_servers, wait_for_line

WORDS = os.environ.get("WORDS", "build/tests/end_to_end/words")
OPTIMIZERS = ["momentum", "adam", "adamw", "rmsprop"]
STRATEGIES = ("servers", "hybrid")
LONG = "epochs=100"
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))


def plain(*options):
    """Four replicas in one process, whose tables are dense."""
    done = subprocess.run([WORDS, "devices=4", *options], capture_output=True, text=True, check=True, timeout=2 * LIMIT)
    return last_json(done.stdout)


def start(workers, servers, *options, strategy="servers", **environment):
    return start_with_servers(workers, servers, [WORDS, "strategy=" + strategy, "devices=%d" % (4 // workers), *options],
                              {"LOCKSTEP_REJOIN_TIMEOUT": "60", **environment})


@functools.lru_cache(None)
def long(rule):
    """Of a training that is not disturbed, whatever its layout."""
    results = start(1, 1, "optimizer=" + rule, LONG).finish()
    assert not any(status for status, _, _ in results.values()), results
    return last_json(results[("worker", 0)][1])


@half_of
class Sparse(unittest.TestCase):
    def outcome(self, results, lost=()):
        expect_ends(self, results, lost=lost)
        return last_json(results[("worker", 0)][1])

    def run_together(self, workers, servers, *options, **others):
        return self.outcome(start(workers, servers, *options, **others).finish())

    def test_plain_sgd_has_the_bits_of_mirrored_training(self):
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw, wanted = random.Random(SEED), plain("optimizer=sgd")
        for strategy in STRATEGIES * 2:
            workers, servers, copies = draw.choice((1, 2, 4)), draw.choice((1, 2, 3, 5)), draw.choice("123")
            transport = draw.choice(("auto", "tcp"))
            print("#", strategy, workers, servers, copies, transport)
            found = self.run_together(workers, servers, "optimizer=sgd", "copies=" + copies, strategy=strategy,
                                      LOCKSTEP_TRANSPORT=transport)
            self.assertEqual(found, wanted)

    def test_other_optimizers_are_lazy_and_do_not_depend_on_the_layout(self):
        draw = random.Random(SEED)
        for name in draw.sample(OPTIMIZERS, 2):
            rule = "optimizer=" + name
            wanted = self.run_together(2, 1, rule)
            self.assertEqual(self.run_together(4, draw.choice((2, 3, 5)), rule, "copies=" + draw.choice("12")), wanted)
            self.assertEqual(self.run_together(draw.choice((1, 2)), draw.choice((1, 2, 4)), rule, strategy="hybrid"), wanted)
            self.assertNotEqual(plain(rule), wanted)
            self.assertEqual(self.run_together(2, 2, rule, "sparse=never", strategy=draw.choice(STRATEGIES)), plain(rule))

    def test_the_command_trains_tables_and_saves_them(self):
        """Where a checkpoint brings them to the chief. Otherwise there is no digest of weights that only servers have."""
        train = [LOCKSTEP, "train", "--model", "embedding", "--embedding", "10000x8", "--limit", "640", "--epochs", "2", "--batch-size", "64",
                 "--no-validation", "--json"]
        wanted = last_json(subprocess.run([*train, "--strategy", "mirrored", "--devices", "2"], capture_output=True, text=True, check=True,
                                          timeout=2 * LIMIT).stdout)
        launch, stored = [LOCKSTEP, "run", "-np", "2", "--ps", "2", "--no-prefix", "--"], ["--strategy", "parameter-server", "--sparse", "always"]
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, "each-{epoch}.npz")
            for more, kept in (([], False), (["--hybrid"], False), (["--hybrid", "--checkpoint", folder + "/a", "--save-each", weights], True),
                               (["--checkpoint", folder + "/b"], True)):
                done = subprocess.run([*launch, *train, *stored, *more], capture_output=True, text=True, timeout=2 * LIMIT)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("an embedding of 10000 rows is sparse", done.stderr)
                found = last_json(done.stdout)
                self.assertEqual((found["steps"], found["loss"]), (wanted["steps"], wanted["loss"]))
                self.assertEqual(found["weights_sha256"], wanted["weights_sha256"] if kept else None)
            for epochs, path in ((1, "each-1.npz"), (2, "each-2.npz")):
                again = subprocess.run([*train, "--epochs", str(3 - epochs), "--weights", os.path.join(folder, path), "--shuffle", "never"],
                                       capture_output=True, text=True, timeout=2 * LIMIT)
                self.assertEqual(again.returncode, 0, again.stderr)
            refused = subprocess.run([*launch, *train, *stored, "--save-each", weights], capture_output=True, text=True, timeout=2 * LIMIT)
            self.assertIn("fit with a checkpoint folder brings them", refused.stderr)
            self.assertNotEqual(refused.returncode, 0)

    def test_integers_are_ids(self):
        wanted = plain("ids=integers")
        self.assertEqual(wanted, plain())
        self.assertEqual(self.run_together(2, 2, "ids=integers", strategy="hybrid"), wanted)
        results = start(2, 2, "bad=3", "ids=integers").finish()
        self.assertRegex(results[("worker", 0)][2] + results[("worker", 1)][2], "has id 700 at place 3, but the table has 500 rows")

    def test_the_rule_looks_at_the_fraction_of_rows(self):
        """120 ids of a batch are 0.24 of 500 rows. The limit for two workers and a server is 0.5, for one worker 0."""
        for workers, word in ((2, "is sparse"), (1, "is dense")):
            results = start(workers, 1, "sparse=by_rule").finish()
            self.assertEqual(self.outcome(results), plain())
            self.assertIn("an embedding of 500 rows " + word, results[("worker", 0)][2])

    def test_a_lost_worker_comes_back_to_the_rows_before_the_step(self):
        for strategy, kept in zip(STRATEGIES, ("variables", "tables")):
            cluster = start(2, 2, "optimizer=adam", LONG, strategy=strategy)
            wait_for_line(cluster.tasks[("ps", 0)].stderr, "keeps %s and 2 moments" % kept)
            cluster.wait_for_step()
            cluster.replace(1)
            self.assertEqual(self.outcome(cluster.finish()), long("adam"))

    def test_a_lost_server_costs_nothing_where_another_one_has_its_rows(self):
        for rule, strategy, kept in (("adam", "hybrid", "sparse tables"), ("sgd", "servers", "the variables")):
            cluster = start(2, 3, "optimizer=" + rule, "copies=2", LONG, strategy=strategy)
            cluster.wait_for_step()
            cluster.tasks[("ps", 1)].kill()
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "2 parameter servers keep " + kept)
            self.assertEqual(self.outcome(cluster.finish(), lost=[("ps", 1)]), long(rule))

    def test_an_evaluation_goes_on_after_losses(self):
        options = ["optimizer=adam", "copies=2", "repeat=100"]
        wanted = self.run_together(2, 3, *options)
        cluster = start(2, 3, *options)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "evaluates")
        cluster.tasks[("ps", 1)].kill()
        cluster.replace(1)
        self.assertEqual(self.outcome(cluster.finish(), lost=[("ps", 1)]), wanted)

    def test_with_lost_rows_all_go_back_to_the_checkpoint_in_place(self):
        """Without moments too, as no worker has a table."""
        with tempfile.TemporaryDirectory() as folder:
            options, strategy = ["optimizer=sgd", LONG, "checkpoint=" + folder], random.Random(SEED).choice(STRATEGIES)
            cluster = start(2, 2, *options, strategy=strategy, LOCKSTEP_PS_WAIT="1")
            wait_for_line(cluster.tasks[("ps", 0)].stderr, " 0 moments of model 1 after step")
            cluster.wait_for_checkpoint(folder)
            cluster.tasks[("ps", 1)].kill()
            results = cluster.finish()
            for words in ("parameter server 1 of 2 was lost, and with it the only copy of rows of its tables after step",
                          "all go back to the newest checkpoint", "training goes on after step"):
                self.assertIn(words, results[("worker", 0)][2])
            self.assertEqual(self.outcome(results, lost=[("ps", 1)])["predictions"], plain(*options[:-1])["predictions"])

    def test_a_checkpoint_is_that_of_mirrored_training(self):
        wanted = plain("epochs=4")["predictions"]
        for first, second in (((2, 2, "hybrid"), (2, 0, "workers")), ((4, 0, "workers"), (2, 3, "hybrid")),
                              ((1, 2, "servers"), (2, 3, "servers"))):
            with tempfile.TemporaryDirectory() as folder:
                for epochs, (workers, servers, strategy) in ((2, first), (4, second)):
                    found = self.run_together(workers, servers, "epochs=%d" % epochs, "checkpoint=" + folder,
                                              strategy=strategy)
                self.assertEqual(found["predictions"], wanted)

    def test_moments_of_rows_are_in_checkpoints(self):
        wanted = self.run_together(2, 2, "optimizer=adam", "epochs=4")["predictions"]
        with tempfile.TemporaryDirectory() as folder:
            self.run_together(2, 2, "optimizer=adam", "epochs=2", "checkpoint=" + folder, strategy="hybrid")
            found = self.run_together(4, 3, "optimizer=adam", "epochs=4", "copies=2", "checkpoint=" + folder)
        self.assertEqual(found["predictions"], wanted)

    def test_tables_begin_with_weights_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/words.safetensors"
            plain("save=" + path)
            wanted = plain("load=" + path)
            self.assertNotEqual(wanted, plain())
            self.assertEqual(self.run_together(2, 3, "load=" + path), wanted)
            results = start(1, 1, "save=" + path).finish()
            self.assertEqual(results[("worker", 0)][0], 2)
            self.assertIn("ls_model_save_weights: the rows of 'words/embeddings' are on the parameter servers alone",
                          results[("worker", 0)][2])

    def test_an_id_that_is_none_ends_all_workers(self):
        results = start(2, 2, "bad=3").finish()
        self.assertIn(2, [results[("worker", index)][0] for index in range(2)])
        for index in range(2):
            status, _, stderr = results[("worker", index)]
            self.assertIn(status, (2, 138), stderr)
            self.assertRegex(stderr, r"replica \d: layer 'words': row \d+ has id 700 at place 3, but the table has 500 rows")

    def test_what_cannot_be_is_named(self):
        for name, words in (("lamb", "the optimizer lamb"), ("clipnorm", "clipnorm"), ("batches", "gradient_accumulation_steps")):
            results = start(1, 1, "optimizer=" + name).finish()
            self.assertEqual(results[("worker", 0)][0], 2)
            self.assertIn(words + " needs all rows of 'words/embeddings'", results[("worker", 0)][2])
        cluster = start(2, 1, LOCKSTEP_REJOIN_TIMEOUT="0")
        cluster.replace(1, command=[*cluster.command, "sparse=never"])
        results = cluster.finish()
        self.assertIn("sparse_tables differs: 'words/embeddings,others/embeddings' on worker:0 (rank 0), 'none' on worker:1",
                      results[("worker", 0)][2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
