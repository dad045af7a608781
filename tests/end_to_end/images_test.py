#!/usr/bin/env python3
"""MobileNetV2 on image files: steps at 224 x 224, the same from an image folder and from TFRecords. learned_test.py has the long form."""
import os
import subprocess
import tempfile
import unittest

from cluster import LIMIT, LOCKSTEP, run_local

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
