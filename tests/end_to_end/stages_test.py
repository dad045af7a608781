#!/usr/bin/env python3
"""MultiWorkerMirroredStrategy whose workers have a stage of the layers each (--stages): the bits and the checkpoints are those of
gradient accumulation on one device; with a lost stage all go back to the checkpoint; what cannot be is named."""
import os
import random
import signal
import subprocess
import tempfile
import unittest

from cluster import ENDLESS, LIMIT, LOCKSTEP, Cluster, digest, expect_ends, expect_undisturbed, wait_for_line

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", "--hidden", "64,48,32", "--limit", "500", "--batch-size", "16",
         "--accumulate", "4", "--devices", "1", "--verbose", "-1", "--json"]
WHOLE = [*TRAIN, "--strategy", "mirrored", "--no-validation"]
GPT = [LOCKSTEP, "train", "--model", "gpt", "--dataset", "/usr/share/common-licenses/GPL-3", "--tokens", "bytes", "--context", "16",
       "--layers", "4", "--heads", "2", "--width", "32", "--limit", "150", "--batch-size", "4", "--accumulate", "4", "--devices", "1",
       "--verbose", "-1", "--json", "--no-validation"]
LENET = [LOCKSTEP, "train", "--model", "lenet", "--dataset", "digits", "--limit", "64", "--devices", "1", "--verbose", "-1"]
RULES = [["--optimizer", "sgd", "--momentum", "0.9", "--clip-value", "0.01"], ["--optimizer", "adam", "--clip-norm", "0.01"],
         ["--optimizer", "adamw", "--global-clip-norm", "0.02"], ["--optimizer", "lamb", "--global-clip-norm", "0.05"]]
STEPS = 8  # of an epoch: 32 batches, 4 a step
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))


def on_devices(command, devices):
    at = command.index("--devices") + 1
    return [*command[:at], str(devices), *command[at + 1:]]


def start(stages, options, train=TRAIN, replicas=1, **environment):
    workers = stages * replicas
    options = ["--stages", str(stages), *options] if stages > 1 else options
    cluster = Cluster(workers, [*train, *options], {"LOCKSTEP_REJOIN_TIMEOUT": "60", **environment})
    cluster.start_all()
    return cluster


class Stages(unittest.TestCase):
    def test_the_bits_are_those_of_accumulation(self):
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw = random.Random(SEED)
        for train in (TRAIN, GPT):
            options = ["--epochs", "2", *draw.choice(RULES)]
            options += draw.choice(([], ["--dropout", "0.1"])) if train is GPT else draw.choice(([], ["--no-validation"]))
            stages, replicas = draw.choice(((2, 1), (3, 1), (4, 1), (2, 2), (2, 3)))
            whole = [*on_devices(train, replicas), "--strategy", "mirrored"]
            done = subprocess.run([*whole, *options], capture_output=True, text=True, check=True,
                                  timeout=2 * LIMIT)
            transport = draw.choice(("auto", "tcp"))
            print("#", stages, replicas, transport, *options)
            results = start(stages, options, train, replicas, LOCKSTEP_TRANSPORT=transport).finish()
            expect_ends(self, results)
            self.assertEqual(digest(results[("worker", 0)][1]), digest(done.stdout))

    def test_a_frozen_table_of_both_ends_stays(self):
        options = ["--freeze", "token_embedding", "--epochs", "2"]
        done = subprocess.run([*GPT, "--strategy", "mirrored", *options], capture_output=True, text=True, check=True, timeout=LIMIT)
        for stages in (2, 3):
            results = start(stages, options, GPT).finish()
            expect_ends(self, results)
            self.assertEqual(digest(results[("worker", 0)][1]), digest(done.stdout))

    def train_on(self, folder, options, stages, replicas, steps):
        """Goes on from the folder's checkpoint until at least so many steps are done, and is stopped."""
        cluster = start(stages, ["--no-validation", *options, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1000000"],
                        replicas=replicas)
        cluster.wait_for_step(steps)
        cluster.kill(stages * replicas - 1, signal.SIGTERM)
        expect_ends(self, cluster.finish(), 143)

    def test_a_checkpoint_goes_on_at_another_number_of_stages(self):
        rule = ["--optimizer", "lamb", "--global-clip-norm", "0.05"]
        with tempfile.TemporaryDirectory() as folder:
            for stages, steps in ((4, 2), (2, 1), (1, 1), (3, 1)):
                self.train_on(folder, rule, stages, 1, steps)
            expect_undisturbed(self, [*WHOLE, *rule], folder, STEPS)

    def test_a_checkpoint_of_two_replicas_goes_on_without_stages(self):
        rule = ["--optimizer", "adam"]
        with tempfile.TemporaryDirectory() as folder:
            for stages, steps in ((2, 2), (1, 1), (2, 1)):
                self.train_on(folder, rule, stages, 2, steps)
            expect_undisturbed(self, [*on_devices(WHOLE, 2), *rule], folder, STEPS)

    def test_with_a_lost_stage_all_go_back_to_the_checkpoint_in_place(self):
        """The last stage is lost, and then the chief; of two replicas one stage of one."""
        rule = ["--optimizer", "adam", "--no-validation"]
        for replicas in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                cluster = start(2, [*rule, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1"], replicas=replicas)
                for rank in (1, 0):
                    cluster.wait_for_checkpoint(folder)
                    cluster.replace(rank)
                    wait_for_line(cluster.tasks[("worker", 0)].stderr, "training goes on after step [1-9]")
                cluster.kill(1, signal.SIGTERM)
                expect_ends(self, cluster.finish(), 143)
                expect_undisturbed(self, [*on_devices(WHOLE, replicas), *rule], folder, STEPS)

    def test_without_checkpoints_a_lost_stage_ends_all(self):
        cluster = start(2, ["--no-validation", *ENDLESS])
        cluster.wait_for_step(2)
        cluster.kill(1)
        status, _, stderr = cluster.finish()[("worker", 0)]
        self.assertEqual(status, 138, stderr)
        self.assertIn("a stage of the pipeline is lost with its worker: start all tasks again, to go on from the newest "
                      "checkpoint", stderr)

    def test_micro_batches_are_parts_of_a_batch(self):
        at = TRAIN.index("--batch-size")
        train = [*TRAIN[:at], "--batch-size", "64", "--micro-batches", "4", *TRAIN[at + 4:]]
        options = ["--no-validation", "--epochs", "2", "--steps-per-epoch"]
        found = subprocess.run([*train, "--strategy", "mirrored", *options, "3"], capture_output=True, text=True, check=True, timeout=LIMIT)
        results = start(2, [*options, "3"], train).finish()
        expect_ends(self, results)
        whole = subprocess.run([*WHOLE, *options[1:], "12"], capture_output=True, text=True, check=True, timeout=LIMIT)
        self.assertEqual({digest(found.stdout), digest(results[("worker", 0)][1])}, {digest(whole.stdout)})
        for options, words in ((["--batch-size", "63"], "--micro-batches 4 do not divide --batch-size 63"),
                               (["--accumulate", "2"], "--micro-batches 4 and --accumulate 2 both say")):
            done = subprocess.run([*train, *options], capture_output=True, text=True, timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)

    def test_what_cannot_be_is_named(self):
        for options, words in (
                (["--strategy", "mirrored", "--stages", "2"], "MirroredStrategy: stages 2 are on the workers of Multi"),
                (["--stages", "2", "--shard", "optimizer"], "leave shard optimizer or stages out"),
                (["--stages", "2", "--communication", "ring"], "leave communication, compression and replicas out"),
                (["--stages", "2", "--compression", "bf16"], "leave communication, compression and replicas out"),
                (["--stages", "2"], "stages 2 do not divide 1 workers: a stage of each replica is one worker's")):
            done = subprocess.run([*TRAIN, *options], capture_output=True, text=True, timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)

    def refuse(self, options, train, words):
        for status, _, stderr in start(2, options, train).finish().values():
            self.assertEqual(status, 2, stderr)
            self.assertIn(words, stderr)

    def test_what_no_stage_can_be_is_named_by_all(self):
        self.refuse(["--devices", "2"], TRAIN, "a stage is computed on one CPU device, and this worker has 2, the first cpu:0")
        self.refuse([], LENET, "is a convolution, whose sums follow from the layers beside it")

    def test_workers_that_differ_are_refused(self):
        cluster = Cluster(2, [*TRAIN, "--stages", "2"])
        cluster.start(0)
        cluster.start(1, command=TRAIN)
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 2, stderr)
            self.assertIn("stages differs: '2' on worker:0 (rank 0), '0' on worker:1 (rank 1)", stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
