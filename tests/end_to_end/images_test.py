#!/usr/bin/env python3
"""MobileNetV2 on image files: drawn JPEGs whose classes only the shape tells apart are learned by two workers, at a reduced
size; and steps at 224 x 224, the same from an image folder and from TFRecords."""
import os
import subprocess
import tempfile
import unittest

from cluster import LIMIT, LOCKSTEP, SANITIZED, run_local

TRAIN = ("--model", "mobilenet_v2", "--optimizer", "adam", "--symmetric")


def convert(dataset, to, path, *options):
    command = [LOCKSTEP, "convert", "--dataset", dataset, "--to", to, "--output", path, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return path


class Images(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-images-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    @unittest.skipIf(SANITIZED, "arithmetic that other tests run too, but for minutes")
    def test_shapes_are_learned(self):
        for split, count in (("train", 800), ("test", 200)):
            images = convert("shapes", "jpeg", self.path("shapes"), "--split", split, "--limit", count,
                             "--image-size", 64, "--quality", 90)
        result = run_local(2, 1, *TRAIN, "--alpha", "0.35", "--norm-momentum", "0.9", "--dataset", images,
                           "--learning-rate", "0.004", "--batch-size", "32", "--epochs", "30", "--augment",
                           "flip,crop=8,contrast=0.3,brightness=0.2", "--cache", timeout=9 * LIMIT)
        self.assertEqual(result["num_workers"], 2)
        self.assertGreaterEqual(result["val_accuracy"], 0.95, result)

    def test_steps_of_full_size(self):
        images = convert("shapes", "jpeg", self.path("images"), "--split", "train", "--limit", 12, "--image-size", 224)
        records = convert(images, "tfrecord", self.path("records"), "--split", "train")
        results = [run_local(2, 1, *TRAIN, "--dataset", dataset, "--learning-rate", "0.001", "--batch-size", "4",
                             "--epochs", "1", "--no-validation", timeout=9 * LIMIT) for dataset in (images, records)]
        for key in ("loss", "weights_sha256"):
            self.assertEqual(results[0][key], results[1][key])
        self.assertEqual(results[0]["steps"], 3)
        self.assertLess(results[0]["loss"], 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
