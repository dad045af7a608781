#!/usr/bin/env python3
"""Image files: MobileNetV2's steps at 224 x 224, the same from an image folder and from TFRecords (learned_test.py has the long form); a
folder that has no split."""
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

    def test_a_folder_without_a_split(self):
        """Its parts, and the folder with a split that convert makes of them, train and measure alike."""
        made = convert("shapes", "jpeg", self.path("made"), "--split", "train", "--limit", 100, "--image-size", 32)
        whole, best, parts = os.path.join(made, "train"), self.path("best.safetensors"), ("--validation-split", "0.2", "--seed", "3")
        split = convert(whole, "jpeg", self.path("split"), *parts)
        options = ("--model", "lenet", "--epochs", "2", "--batch-size", "16")
        results = [run_local(2, 1, "--dataset", whole, *parts, *options, "--save-best", best),
                   run_local(1, 2, "--dataset", split, "--seed", "3", *options)]
        for key in ("loss", "val_loss", "val_accuracy", "weights_sha256"):
            self.assertEqual(results[0][key], results[1][key], key)
        measured = [subprocess.run([LOCKSTEP, "evaluate", "--model", "lenet", "--weights", best, "--json", "--dataset", *dataset],
                                   capture_output=True, text=True, timeout=LIMIT, check=True).stdout
                    for dataset in ((whole, *parts), (split,))]
        self.assertEqual(measured[0], measured[1])
        self.assertIn('"examples": 20,', measured[0])
        refused = subprocess.run([LOCKSTEP, "train", "--dataset", whole, *options], capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertIn("--validation-split 0.2 keeps a fifth of each class apart", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
