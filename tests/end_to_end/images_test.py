#!/usr/bin/env python3
"""Image files: MobileNetV2's steps at 224 x 224, the same from an image folder and from TFRecords (learned_test.py has the long form); a
folder that has no split."""
import csv
import os
import shutil
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

    def test_from_a_folder_to_named_predictions(self):
        """Of files, a list, a folder of folders and an array, by one worker or two: what the labelled data say."""
        made = convert("shapes", "jpeg", self.path("made"), "--split", "train", "--limit", 60, "--image-size", 32)
        weights, whole = self.path("best.safetensors"), os.path.join(made, "train")
        run_local(1, 1, "--dataset", whole, "--validation-split", "0.2", "--model", "lenet", "--epochs", "2", "--batch-size", "16",
                  "--symmetric", "--save-best", weights)
        files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(whole) for name in names)
        listed = self.path("list.txt")
        with open(listed, "w", encoding="utf-8") as file:
            file.write("\n".join(files))
        strange = self.path('a "strange", name.jpg')
        shutil.copy(files[0], strange)
        tables = [self.predict(weights, 1, whole), self.predict(weights, 2, listed), self.predict(weights, 1, *files[:7], strange)]
        self.assertEqual([row["file"] for row in tables[0]], files)
        for one, other in zip(tables[0], tables[1], strict=True):
            self.expect_alike(one, other)
        for one, other in zip(tables[0][:7], tables[2]):
            self.expect_alike(one, other)
        self.expect_alike({**tables[0][0], "file": strange, "example": "7"}, tables[2][7])
        for row in tables[0]:
            values = [float(row["0"]), float(row["1"])]
            self.assertEqual((row["name"], row["class"]), (("circle", "0"), ("triangle", "1"))[values[1] > values[0]])
            self.assertAlmostEqual(sum(values), 1, places=5)
            self.assertEqual(float(row["probability"]), max(values))
        arrays = convert(whole, "npy", self.path("arrays"), "--split", "train")
        values = [(row["0"], row["1"]) for row in self.predict(weights, 1, os.path.join(arrays, "x_train.npy"))]
        for one, other in zip(values, tables[0], strict=True):
            self.assertAlmostEqual(float(one[0]), float(other["0"]), places=4)
        renamed = self.path("renamed")
        shutil.copytree(whole, renamed)
        os.rename(os.path.join(renamed, "circle"), os.path.join(renamed, "oval"))
        done = subprocess.run([LOCKSTEP, "evaluate", "--weights", weights, "--dataset", renamed, "--split", "train"], capture_output=True,
                              text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("class 0 is 'oval' in '%s', and 'circle' in '%s'" % (renamed, weights), done.stderr)

    def expect_alike(self, one, other):
        """But for what the math library rounds otherwise with another number of rows."""
        for name, value in one.items():
            if name in ("example", "file", "class", "name"):
                self.assertEqual(value, other[name])
            else:
                self.assertAlmostEqual(float(value), float(other[name]), places=4)

    def predict(self, weights, workers, *paths):
        output = self.path("output.csv")
        launcher = (LOCKSTEP, "run", "-np", str(workers), "--no-prefix", "--") if workers > 1 else ()
        done = subprocess.run([*launcher, LOCKSTEP, "predict", "--weights", weights, "--output", output, *paths], capture_output=True,
                              text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(output, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


if __name__ == "__main__":
    unittest.main(verbosity=2)
