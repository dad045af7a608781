#!/usr/bin/env python3
"""The main job as users run it: accuracy, the same bits twice and in every layout, RING, many workers, late workers."""
import functools
import subprocess
import time
import unittest

from cluster import LIMIT, PACE, Cluster, drawn, half_of, last_json, run_local, train_command

# 7 full steps and one of 40
SMALL = ("--limit", "530", "--epochs", "2", "--no-validation", "--batch-size", "70")
ACCURATE = 0.97
SHORT = ("--epochs", "1", "--limit", "4000")


@functools.lru_cache(None)
def run_small(workers, devices):
    """For all tests that compare with it."""
    return run_local(workers, devices, *SMALL)


@half_of
class Training(unittest.TestCase):
    def test_accuracy(self):
        result = run_local(2, 1, "--epochs", "3")
        self.assertGreaterEqual(result["val_accuracy"], ACCURATE)
        self.assertEqual((result["num_workers"], result["num_replicas_in_sync"]), (2, 2))
        for name in ("steps", "loss", "accuracy", "val_loss", "val_accuracy", "samples_per_second"):
            self.assertIsInstance(result[name], (int, float), name)

    def test_layouts_of_four_give_one_digest(self):
        """And one of them the same bits twice."""
        results = [run_small(workers, devices) for workers, devices in ((4, 1), (2, 2), (1, 4))] + [run_local(4, 1, *SMALL)]
        self.assertEqual(len({result["weights_sha256"] for result in results}), 1)
        self.assertEqual({result["loss"] for result in results}, {results[0]["loss"]})

    def test_uneven_layouts_of_three_give_one_digest(self):
        digests = {run_small(3, 1)["weights_sha256"], run_small(1, 3)["weights_sha256"]}
        cluster = Cluster(2, train_command("--json", "--verbose", "-1", *SMALL))
        cluster.start(0, command=[*cluster.command, "--devices", "1"])
        cluster.start(1, command=[*cluster.command, "--devices", "2"])
        results = cluster.finish()
        self.assertEqual([status for status, _, _ in results.values()], [0, 0], results)
        digests.add(last_json(results[("worker", 0)][1])["weights_sha256"])
        self.assertEqual(len(digests), 1)

    def test_ring_and_packs(self):
        ring = run_local(3, 1, "--communication", "ring", *SMALL)
        again = run_local(3, 1, "--communication", "ring", *SMALL)
        packed = run_local(3, 1, "--bytes-per-pack", "4096", *SMALL)
        auto = run_small(3, 1)
        self.assertEqual(ring["weights_sha256"], again["weights_sha256"])
        self.assertEqual(packed["weights_sha256"], auto["weights_sha256"])  # AUTO: buckets do not change the bits
        self.assertEqual(packed["loss"], auto["loss"])
        self.assertAlmostEqual(ring["loss"], auto["loss"], delta=1e-4 * auto["loss"])

    def test_transports_give_one_digest(self):
        """Layouts and transports together: shared memory, direct (gradients), and over TCP."""
        for workers, devices in ((3, 1), (2, 2), (4, 1)):
            for transport in drawn(("shm", "tcp"), (workers, devices)):
                result = run_local(workers, devices, "--transport", transport, *SMALL)
                self.assertEqual(result["weights_sha256"], run_small(workers, devices)["weights_sha256"], transport)

    def check_compression(self, plain, workers, compression, *options):
        """Two runs alike, other bits than without, nearly the same accuracy. That all ranks hold the same bits every
        run checks by itself after each epoch."""
        tcp = {"LOCKSTEP_TRANSPORT": "tcp"}
        first, second = (run_local(workers, 1, "--compression", compression, *options, environment=tcp) for _ in range(2))
        self.assertEqual(first["weights_sha256"], second["weights_sha256"])
        self.assertEqual(first["loss"], second["loss"])
        self.assertNotEqual(first["weights_sha256"], plain["weights_sha256"])
        self.assertAlmostEqual(first["val_accuracy"], plain["val_accuracy"], delta=0.01)

    def test_compression_keeps_the_accuracy(self):
        for workers, compression, *options in drawn(((2, "bf16"), (4, "fp16", "--bytes-per-pack", "100000"),
                                                     (4, "bf16", "--communication", "ring")), "compression"):
            ring = options if "ring" in options[-1:] else ()
            self.check_compression(run_local(workers, 1, *SHORT, *ring), workers, compression, *SHORT, *options)

    def test_compression_does_not_round_the_metrics(self):
        """1000 examples a step: bfloat16 has no 999. The first step's weights are those of no compression."""
        options = ("--limit", "1000", "--batch-size", "1000", "--epochs", "1", "--no-validation")
        tcp = {"LOCKSTEP_TRANSPORT": "tcp"}
        plain = run_local(2, 1, *options, environment=tcp)
        rounded = run_local(2, 1, "--compression", "bf16", *options, environment=tcp)
        self.assertEqual((rounded["loss"], rounded["accuracy"]), (plain["loss"], plain["accuracy"]))
        self.assertNotEqual(rounded["weights_sha256"], plain["weights_sha256"])

    def test_compression_changes_nothing_in_shared_memory(self):
        plain, rounded = run_small(2, 2), run_local(2, 2, "--compression", "bf16", *SMALL)
        self.assertEqual(rounded["weights_sha256"], plain["weights_sha256"])

    def test_tensorflow_division(self):
        result = run_local(2, 2, "--division", "tensorflow", *SMALL)
        self.assertEqual(result["num_replicas_in_sync"], 4)
        self.assertLess(result["loss"], 2.4)

    def test_options_of_the_optimizers(self):
        """A default that is given changes no bit; every other value does, and what a rule has not is named."""
        def digest(*options):
            return run_local(1, 1, "--limit", "300", "--epochs", "1", "--no-validation", *options)["weights_sha256"]
        for optimizer, standard, others in (
                ("adam", ("--beta-1", "0.9", "--beta-2", "0.999", "--epsilon", "1e-7", "--kernel-l1", "0", "--kernel-l2", "0"),
                 (("--beta-1", "0.8"), ("--beta-2", "0.99"), ("--epsilon", "0.001"), ("--kernel-l1", "1e-4"), ("--kernel-l2", "1e-4"))),
                ("rmsprop", ("--rho", "0.9", "--momentum", "0"), (("--rho", "0.8"), ("--momentum", "0.5"), ("--centered",)))):
            plain = digest("--optimizer", optimizer)
            self.assertEqual(digest("--optimizer", optimizer, *standard), plain)
            digests = [digest("--optimizer", optimizer, *other) for other in others]
            self.assertEqual(len({plain, *digests}), 1 + len(others))
        done = subprocess.run(train_command("--limit", "300", "--optimizer", "sgd", "--beta-1", "0.5"), capture_output=True,
                              text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--optimizer sgd has no '--beta-1'", done.stderr)

    def test_regularised_images(self):
        """The kernels of LeNet, and all but the depthwise ones of MobileNetV2, are in the loss."""
        for model in (("lenet",), ("mobilenet_v2", "--alpha", "0.35")):
            options = ("--dataset", "shapes", "--image-size", "32x32", "--model", *model, "--limit", "32", "--epochs", "1",
                       "--no-validation", "--batch-size", "32")
            plain, heavy = (run_local(1, 1, *options, "--metrics", "mean_loss", "--kernel-l2", factor) for factor in ("0", "0.01"))
            self.assertAlmostEqual(heavy["mean_loss"], plain["loss"], delta=1e-6)
            self.assertGreater(heavy["loss"], plain["loss"] + 0.1)

    def test_a_chief_and_workers(self):
        cluster = Cluster(3, train_command("--json", "--verbose", "-1", *SMALL))
        addresses = cluster.cluster["worker"]
        cluster.cluster = {"chief": addresses[:1], "worker": addresses[1:], "ps": [], "evaluator": ["127.0.0.1:9"]}
        cluster.start(0)
        cluster.start(1)
        cluster.start(0, role="chief")
        results = cluster.finish()
        self.assertEqual([status for status, _, _ in results.values()], [0, 0, 0], results)
        self.assertEqual(last_json(results[("chief", 0)][1])["num_workers"], 3)
        self.assertEqual(results[("worker", 0)][1], "")

    def test_sixteen_workers(self):
        cluster = Cluster(16, train_command("--json", "--limit", "640", "--epochs", "1", "--no-validation",
                                            "--batch-size", "64"))
        cluster.start_all()
        started = time.monotonic()
        results = cluster.finish(timeout=2 * LIMIT)
        self.assertEqual({status for status, _, _ in results.values()}, {0}, results)
        self.assertEqual(last_json(results[("worker", 0)][1])["steps"], 10)
        self.assertLess(time.monotonic() - started, 30 * PACE)

    def test_any_order_and_late_workers(self):
        cluster = Cluster(3, train_command("--json", *SMALL), {"LOCKSTEP_REPORT_INTERVAL": "1"})
        for index in (2, 0):
            cluster.start(index)
            time.sleep(2.5)
        cluster.start(1)
        results = cluster.finish()
        self.assertEqual({status for status, _, _ in results.values()}, {0}, results)
        self.assertIn("worker:1", results[("worker", 2)][2])  # the waiting line named who was missing


class Memory(unittest.TestCase):
    def test_a_worker_that_lacks_memory_is_named_by_all(self):
        cluster = Cluster(3, train_command("--optimizer", "adam", "--limit", "96", "--devices", "2", "--hidden", "128,64"), {})
        for index in range(3):
            limit = ["env", "LOCKSTEP_MEMORY_LIMIT=3000000"] if index == 1 else []
            cluster.start(index, command=[*limit, *cluster.command])
        for key, (status, _, stderr) in cluster.finish(20).items():
            self.assertNotEqual(status, 0, key)
            self.assertRegex(stderr, r"rank 1 needs 3500\d+ bytes for variables, moments and gradients of 2 replicas, and "
                             "LOCKSTEP_MEMORY_LIMIT allows 3000000: ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
