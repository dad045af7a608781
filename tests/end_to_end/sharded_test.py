#!/usr/bin/env python3
"""MultiWorkerMirroredStrategy whose workers own the optimizer's moments (--shard optimizer), and divide gradients too (--shard
gradients): the bits and the checkpoints are those of mirrored training, also when a worker is lost; what cannot be is named."""
import os
import random
import signal
import subprocess
import tempfile
import unittest

from cluster import ENDLESS, HIDDEN, LIMIT, LOCKSTEP, Cluster, digest, expect_ends, expect_undisturbed, wait_for_line

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *HIDDEN, "--limit", "500", "--batch-size", "128", "--no-validation",
         "--verbose", "-1", "--json"]
MIRRORED = [*TRAIN, "--strategy", "mirrored", "--devices", "4"]
SHARD, DIVIDE = ["--shard", "optimizer"], ["--shard", "gradients"]
# of these a batch takes some time, and layers more memory than variables
DEEP = [["--model", "mobilenet_v2", "--alpha", "0.35", "--dataset", "shapes", "--image-size", "32", "--limit", "64", "--batch-size", "32"],
        ["--model", "gpt", "--layers", "2", "--width", "32", "--context", "16", "--tokens", "bytes", "--steps-per-epoch", "3",
         "--batch-size", "16", "--dataset", "/usr/share/common-licenses/GPL-3"]]
RULES = [["--optimizer", "sgd"], ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--clip-value", "0.01"],
         ["--optimizer", "adam", "--clip-norm", "0.01"], ["--optimizer", "adamw", "--global-clip-norm", "0.02"],
         ["--optimizer", "rmsprop", "--momentum", "0.5", "--centered"],
         ["--optimizer", "lamb", "--global-clip-norm", "0.05", "--weight-decay", "0.01"]]
PART = "has its part of the moments of model 1 after step [0-9]+, 2 copies of each"
STEPS = 4  # of an epoch
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))


def plain(options):
    """The digest of four replicas in one process."""
    done = subprocess.run([*MIRRORED, *options], capture_output=True, text=True, check=True, timeout=2 * LIMIT)
    return digest(done.stdout)


def start(workers, options, **environment):
    cluster = Cluster(workers, [*TRAIN, "--devices", str(4 // workers), *options],
                      {"LOCKSTEP_REJOIN_TIMEOUT": "60", **environment})
    cluster.start_all()
    return cluster


class Sharded(unittest.TestCase):
    def expect(self, results, wanted):
        expect_ends(self, results)
        self.assertEqual(digest(results[("worker", 0)][1]), wanted)

    def test_the_bits_are_those_of_mirrored(self):
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw = random.Random(SEED)
        for rule in draw.sample(RULES, 3):
            options = ["--epochs", "2", *rule, *draw.choice(([], ["--bytes-per-pack", "20000"]))]
            copies, transport = draw.choice("124"), draw.choice(("auto", "tcp"))
            wanted = plain(options)
            for workers in draw.sample((1, 2, 4), 2):
                shard = draw.choice((SHARD, DIVIDE))
                print("#", workers, copies, transport, *shard, *options)
                self.expect(start(workers, [*options, *shard, "--shard-copies", copies], LOCKSTEP_TRANSPORT=transport).finish(),
                            wanted)

    def test_deep_models_divide_their_gradients(self):
        """Whose layers have more memory than variables: there the new ones are gathered. A tied table has gradients early."""
        draw = random.Random(SEED + 1)
        model, rule, workers = draw.choice(DEEP), draw.choice(RULES), draw.choice((2, 3, 4))
        options = [*model, *rule, "--epochs", "1", "--no-validation", "--verbose", "-1", "--json", "--bytes-per-pack", "10000"]
        done = subprocess.run([LOCKSTEP, "train", *options, "--strategy", "mirrored", "--devices", str(workers)], capture_output=True,
                              text=True, check=True, timeout=2 * LIMIT)
        for copies in "12":
            transport = draw.choice(("auto", "tcp"))
            print("#", workers, copies, transport, *options)
            cluster = Cluster(workers, [LOCKSTEP, "train", *options, "--devices", "1", *DIVIDE, "--shard-copies", copies],
                              {"LOCKSTEP_TRANSPORT": transport})
            cluster.start_all()
            self.expect(cluster.finish(), digest(done.stdout))

    def train_on(self, folder, options, workers, steps):
        """Goes on from the folder's checkpoint until at least so many steps are done, and is stopped."""
        cluster = start(workers, [*options, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1000000"])
        cluster.wait_for_step(steps)
        cluster.kill(workers - 1, signal.SIGTERM)
        expect_ends(self, cluster.finish(), 143)

    def test_a_checkpoint_goes_on_at_another_size(self):
        """With the moments divided over four, two and three workers, whole, and divided in another way."""
        rule = ["--optimizer", "lamb", "--global-clip-norm", "0.05"]
        with tempfile.TemporaryDirectory() as folder:
            self.train_on(folder, [*rule, *DIVIDE], 4, 2)
            self.train_on(folder, [*rule, *SHARD, "--shard-copies", "1"], 2, 1)
            self.train_on(folder, rule, 2, 1)
            self.train_on(folder, [*rule, *random.Random(SEED).choice((SHARD, DIVIDE))], 1, 1)
            expect_undisturbed(self, [*MIRRORED, *rule], folder, STEPS)

    def test_a_worker_that_is_lost_costs_nothing_where_another_one_has_its_moments(self):
        rule = ["--optimizer", "adam"]
        with tempfile.TemporaryDirectory() as folder:
            shard = random.Random(SEED + 2).choice((SHARD, DIVIDE))
            cluster = start(4, [*rule, *shard, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1000000"])
            cluster.wait_for_step(2)
            for rank in (2, 1):
                cluster.replace(rank)
                wait_for_line(cluster.tasks[("worker", rank)].stderr, PART)
            self.assertEqual(os.listdir(folder), [".lock"])
            cluster.kill(3, signal.SIGTERM)
            expect_ends(self, cluster.finish(), 143)
            expect_undisturbed(self, [*MIRRORED, *rule], folder, STEPS)

    def test_with_one_copy_all_go_back_to_the_checkpoint_in_place(self):
        """Each of two losses finds a newer checkpoint."""
        rule, lost = ["--optimizer", "adam"], "only copy of [0-9]+ elements .*: all go back to the newest checkpoint"
        with tempfile.TemporaryDirectory() as folder:
            shard = random.Random(SEED + 3).choice((SHARD, DIVIDE))
            cluster = start(2, [*rule, *shard, "--shard-copies", "1", *ENDLESS, "--checkpoint", folder])
            for rank in (1, 0):
                cluster.wait_for_checkpoint(folder)
                cluster.replace(rank)
                for key in cluster.tasks:
                    wait_for_line(cluster.tasks[key].stderr, lost)
                    wait_for_line(cluster.tasks[key].stderr, "recovered: all")
                wait_for_line(cluster.tasks[("worker", 0)].stderr, "training goes on after step [1-9]")
            cluster.kill(1, signal.SIGTERM)
            expect_ends(self, cluster.finish(), 143)
            expect_undisturbed(self, [*MIRRORED, *rule], folder, STEPS)

    def test_with_one_copy_and_no_checkpoint_all_end(self):
        cluster = start(2, ["--optimizer", "adam", *SHARD, "--shard-copies", "1", *ENDLESS])
        cluster.wait_for_step(2)
        cluster.replace(1)
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 138, stderr)
            self.assertRegex(stderr, "UNAVAILABLE: a worker was lost, and with it the only copy of [0-9]+ elements of the "
                                     "optimizer's moments after step [0-9]+: start all tasks again.* --shard-copies 2")

    def test_others_go_on_with_the_moments_of_a_lost_worker(self):
        rule = ["--optimizer", "adam", "--global-clip-norm", "0.02"]
        with tempfile.TemporaryDirectory() as folder:
            shard = random.Random(SEED + 4).choice((SHARD, DIVIDE))
            cluster = start(4, [*rule, *shard, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1000000"],
                            LOCKSTEP_REJOIN_TIMEOUT="0", LOCKSTEP_ELASTIC="1:4")
            cluster.wait_for_step(2)
            for rank, left in ((2, 3), (3, 2)):
                cluster.kill(rank)
                wait_for_line(cluster.tasks[("worker", 0)].stderr, "recovered: %d of 4 workers" % left)
                wait_for_line(cluster.tasks[("worker", 0)].stderr, PART)
            cluster.kill(1, signal.SIGTERM)
            expect_ends(self, {key: found for key, found in cluster.finish().items() if key[1] < 2}, 143)
            expect_undisturbed(self, [*MIRRORED, *rule], folder, STEPS)

    def test_what_cannot_be_is_named(self):
        board = ["--tensorboard", "/nowhere", "--tensorboard-histograms", "1", "--tensorboard-gradients"]
        for options, words in (
                (["--strategy", "mirrored", *SHARD], "MirroredStrategy: shard optimizer divides moments over the workers of "),
                (["--strategy", "local-sgd", "--sync-every", "2", *DIVIDE], "LocalSGDStrategy: shard gradients divides"),
                ([*SHARD, "--communication", "nccl"], "in place of NCCL"), ([*SHARD, *board], "leave gradients out, or shard")):
            done = subprocess.run([*TRAIN, *options], capture_output=True, text=True, timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)

    def test_workers_that_differ_are_refused(self):
        for unlike, words in ((["--shard", "none"], "shard differs: 'optimizer' on worker:0 (rank 0), 'none' on worker:1 (rank 1)"),
                              (DIVIDE, "shard differs: 'optimizer' on worker:0 (rank 0), 'gradients' on worker:1 (rank 1)"),
                              ([*SHARD, "--shard-copies", "1"], "shard_copies differs: '2' on worker:0 (rank 0), '1' on worker:1")):
            cluster = Cluster(2, [*TRAIN, *SHARD])
            cluster.start(0)
            cluster.start(1, command=[*TRAIN, *unlike])
            for status, _, stderr in cluster.finish().values():
                self.assertEqual(status, 2, stderr)
                self.assertIn(words, stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
