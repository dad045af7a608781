#!/usr/bin/env python3
"""Images as users have them: a folder and the same images in other files give one training, in every layout, with random
stages, and with a worker that was lost; damage is named or left out; lockstep convert's own mistakes."""
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from cluster import LIMIT, LOCKSTEP, last_json, run_local

COUNT = 240
OPTIONS = ("--epochs", "2", "--batch-size", "28", "--hidden", "16")
AUGMENT = ("--augment", "flip,crop=4,brightness=0.2,contrast=0.2", "--symmetric")

KERAS_LAYERS = ("--augment", "rotation=0.1,zoom=0.2:nearest,shift=-0.1:0.2/0.1:wrap,hue=0.3,saturation=0.3:0.7,cutout=0.5,"
                "cutout=1:1:constant", "--symmetric")

KERAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/weights/whole.keras")


def lockstep(*arguments):
    return subprocess.run([LOCKSTEP, *map(str, arguments)], capture_output=True, text=True, timeout=2 * LIMIT, check=False,
                          stdin=subprocess.DEVNULL)


class Input(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="lockstep-input-")
        cls.images = cls.convert("shapes", "jpeg", "images", "--limit", COUNT, "--image-size", "24x20", "--quality", 90)
        cls.records = cls.convert(cls.images, "tfrecord", "records", "--shards", 3, "--name", "shapes")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def convert(cls, dataset, to, name, *options):
        path = os.path.join(cls.folder, name)
        done = lockstep("convert", "--dataset", dataset, "--to", to, "--output", path, *options)
        if done.returncode:
            raise AssertionError(done.stderr)
        return path

    def digest(self, workers, devices, dataset, *options):
        return run_local(workers, devices, "--dataset", dataset, *OPTIONS, *options)["weights_sha256"]

    def test_folder_records_and_arrays_train_alike(self):
        arrays = self.convert(self.records, "npz", "arrays")
        results = [run_local(1, 1, "--dataset", dataset, *OPTIONS) for dataset in (self.images, self.records, arrays)]
        for key in ("weights_sha256", "loss", "val_loss", "val_accuracy"):
            self.assertEqual(len({result[key] for result in results}), 1, key)

    def test_tokens_train_alike_in_every_layout(self):
        """Of a text, and of the same ids in nanoGPT's and llm.c's files."""
        text, plain, headed = (os.path.join(self.folder, name) for name in ("text", "plain.bin", "headed.bin"))
        ids = [i * i * 7 % 61 + i % 5 for i in range(4000)]
        with open(text, "wb") as file:
            file.write(bytes(ids))
        with open(plain, "wb") as file:
            file.write(struct.pack("<4000H", *ids))
        with open(headed, "wb") as file:
            file.write(struct.pack("<256I", 20240520, 1, 4000, *[0] * 253) + struct.pack("<4000H", *ids))
        options = ("--model", "embedding", "--context", "24", "--stride", "10", "--vocabulary", "256", "--validation-split", "0.1")
        digests = {self.digest(workers, devices, file, "--tokens", tokens, *options) for workers, devices, file, tokens in
                   ((1, 4, text, "bytes"), (2, 2, text, "bytes"), (4, 1, text, "bytes"), (1, 4, plain, "uint16"), (2, 2, headed, "llmc"))}
        self.assertEqual(len(digests), 1)

    def test_layouts_threads_and_caches_do_not_change_the_bits(self):
        digests = {self.digest(2, 1, self.images, *AUGMENT), self.digest(1, 2, self.records, *AUGMENT),
                   self.digest(1, 2, self.images, *AUGMENT, "--cache", "--prefetch", "5"),
                   self.digest(1, 2, self.records, *AUGMENT, "--data-workers", "-1")}
        self.assertEqual(len(digests), 1)
        self.assertNotIn(self.digest(1, 2, self.images), digests)

    def test_keras_layers_draw_alike_in_every_layout(self):
        digests = {self.digest(3, 1, self.images, *KERAS_LAYERS),
                   self.digest(1, 3, self.images, *KERAS_LAYERS, "--data-workers", "1"),
                   self.digest(1, 3, self.records, *KERAS_LAYERS, "--data-workers", "4"),
                   self.digest(1, 3, self.images, *KERAS_LAYERS, "--data-workers", "-1")}
        self.assertEqual(len(digests), 1)
        self.assertNotIn(self.digest(1, 3, self.images, *KERAS_LAYERS, "--seed", "9"), digests)

    def test_mixed_examples_are_the_same_in_every_layout(self):
        """The loss is categorical_crossentropy, of which the validation's classes are one-hot rows."""
        mixed = ("--augment", "flip,mixup=0.3,brightness=0.1")
        results = [run_local(3, 1, "--dataset", self.images, *OPTIONS, *mixed),
                   run_local(1, 3, "--dataset", self.records, *OPTIONS, *mixed, "--loss", "categorical_crossentropy")]
        for key in ("weights_sha256", "loss", "accuracy", "val_loss", "val_accuracy"):
            self.assertEqual(len({result[key] for result in results}), 1, key)
        done = lockstep("train", "--dataset", self.images, *mixed, "--loss", "sparse_categorical_crossentropy")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("mix-up makes shares of classes", done.stderr)

    def test_files_are_dealt_to_workers(self):
        tensorflow = ("--division", "tensorflow", "--auto-shard", "file", "--no-validation")
        result = run_local(2, 1, "--dataset", self.records, *OPTIONS, *tensorflow)
        self.assertGreater(result["steps"], COUNT // 28)

    def test_workers_have_what_the_hint_leaves_them(self):
        """Half of the examples each, however they are dealt: a step takes 14 of either."""
        hint = ("--division", "tensorflow", "--no-validation", "--auto-shard", "hint", "--shard-hint")
        results = [run_local(2, 1, "--dataset", self.records, *OPTIONS, *hint, place) for place in ("examples", "rows")]
        epochs, steps = int(OPTIONS[1]), -(-(COUNT // 2) // 14)
        self.assertEqual([result["steps"] for result in results], [epochs * steps] * 2)
        self.assertNotEqual(results[0]["weights_sha256"], results[1]["weights_sha256"])
        done = lockstep("train", "--dataset", self.records, "--division", "tensorflow", "--auto-shard", "hint")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("auto_shard HINT (4) needs a shard_hint", done.stderr)

    def test_the_plan_is_told(self):
        done = lockstep("train", "--dataset", self.records, "--epochs", 1, "--batch-size", 28, "--no-validation")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rf"data: tfrecord: {COUNT} examples of \(24, 20, 3\) in 3 files; {-(-COUNT // 28)} steps an epoch; "
                                      r"this worker takes 28 of 28 examples a step, \d+ of \d+ in the last; \d+ threads read 2 steps ahead")

    def test_damage(self):
        broken = os.path.join(self.folder, "broken")
        shutil.copytree(self.images, broken)
        victim = os.path.join(broken, "train", "triangle", "000002.jpg")
        names = sorted(os.listdir(os.path.dirname(victim)))
        victim = os.path.join(os.path.dirname(victim), names[1])
        os.truncate(victim, 300)
        train = ("train", "--dataset", broken, "--epochs", 1, "--batch-size", 28, "--no-validation", "--json")
        done = lockstep(*train)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, re.escape(f"JPEG image '{victim}' is damaged near offset") + r" \d+ of 300")
        done = lockstep(*train, "--skip-damaged")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{COUNT - 1} examples of (24, 20, 3) in {COUNT} files, 1 damaged ones left out", done.stderr)

    def test_weights(self):
        path = os.path.join(self.folder, "weights.npz")
        done = lockstep("convert", KERAS, path)
        self.assertEqual((done.returncode, done.stdout), (0, f"{path}: 15 variables, 89 parameters\n"), done.stderr)
        train = ("train", "--dataset", self.images, "--hidden", "none", "--steps-per-epoch", 1, "--no-validation")
        done = lockstep(*train, "--weights", path)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"'{path}': variable 'dense/kernel' has shape (8, 3), the model's has (1440, 2)", done.stderr)
        done = lockstep(*train, "--skip-mismatch")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("'--skip-mismatch' needs '--weights FILE'", done.stderr)

    def test_mistakes_of_convert(self):
        for arguments, status, says in (
                (["--dataset", "shapes"], 2, "it needs --dataset, --to and --output"),
                (["--dataset", "shapes", "--to", "gif", "--output", "x"], 2, "--to 'gif' is none that there is"),
                (["--dataset", "shapes", "--to", "png", "--output", "/no/such/place"], 1, "cannot make folder '/no/such/place'"),
                (["--dataset", "/no/such", "--to", "png", "--output", "x"], 2, "--dataset '/no/such' is neither digits nor shapes"),
                (["--dataset", "shapes", "--image-size", "3y4"], 2, "--image-size '3y4' is no side"),
                (["a.h5"], 2, "weights need two files: from and to"),
                (["--to", "npz", "a.h5"], 2, "unexpected argument 'a.h5'"),
                (["/no/such.h5", "a.npz"], 1, "cannot open '/no/such.h5'"),
                ([KERAS, "/tmp/a.h5"], 2, "ends in neither .safetensors nor .npz")):
            done = lockstep("convert", *arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
