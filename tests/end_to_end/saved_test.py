#!/usr/bin/env python3
"""lockstep evaluate and predict: the numbers of the training, on any number of workers, in the order of the dataset."""
import csv
import json
import os
import struct
import subprocess
import tempfile
import unittest

from cluster import LIMIT, LOCKSTEP, last_json, train_command

MODEL = ("--hidden", "16")
TRAIN = (*MODEL, "--json", "--verbose", "-1", "--limit", "600", "--epochs", "2", "--seed", "3")


def lockstep(command, *options, workers=1):
    line = [LOCKSTEP, command, *MODEL, *options]
    if workers > 1:
        line = [LOCKSTEP, "run", "-np", str(workers), "--no-prefix", "--", *line]
    return subprocess.run(line, capture_output=True, text=True, timeout=2 * LIMIT)


def read_npy(path):
    """(shape, values) by nothing but the format's description."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length, = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0 and data[9 + length:10 + length] == b"\n"
    shape = eval(data[10:10 + length])["shape"]
    return shape, struct.unpack("<%df" % (shape[0] * shape[1]), data[10 + length:])


class Saved(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.weights = os.path.join(cls.scratch.name, "weights{epoch}.safetensors")
        cls.checkpoints = os.path.join(cls.scratch.name, "checkpoints")
        os.mkdir(cls.checkpoints)
        done = subprocess.run(train_command(*TRAIN, "--save-each", cls.weights, "--checkpoint", cls.checkpoints,
                                            "--checkpoint-retain"), capture_output=True, text=True, timeout=2 * LIMIT)
        assert done.returncode == 0, done.stderr
        cls.result = last_json(done.stdout)
        cls.weights = cls.weights.format(epoch=2)

    def run_ok(self, command, *options, workers=1):
        done = lockstep(command, "--seed", "3", *options, workers=workers)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_evaluate_gives_the_training_s_numbers(self):
        for weights, workers in ((self.weights, 1), (self.weights, 3), (self.checkpoints, 2)):
            found = last_json(self.run_ok("evaluate", "--weights", weights, "--json", workers=workers))
            self.assertEqual(found["examples"], 10000)
            self.assertAlmostEqual(found["loss"], self.result["val_loss"], delta=1e-8)
            self.assertEqual(found["accuracy"], self.result["val_accuracy"])

    def test_a_flipped_byte_is_found(self):
        for path in (self.weights, os.path.join(self.checkpoints, sorted(os.listdir(self.checkpoints))[-1])):
            with open(path, "rb") as file:
                bytes_ = bytearray(file.read())
            length, = struct.unpack("<Q", bytes_[:8])
            bytes_[8 + length + 1001] ^= 4
            damaged = os.path.join(self.scratch.name, "damaged.safetensors")
            with open(damaged, "wb") as file:
                file.write(bytes_)
            done = lockstep("evaluate", "--weights", damaged)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("DATA_LOSS: '%s' is damaged: the SHA-256" % damaged, done.stderr)
        with open(self.weights, "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            metadata = json.loads(file.read(length))["__metadata__"]
        self.assertEqual((metadata["format"], len(metadata["data_sha256"])), ("np", 64))
        about = json.loads(metadata["about"])
        self.assertEqual((about["input"], about["outputs"], about["loss"], about["note"]), (
            [28, 28, 1], 10, "sparse_categorical_crossentropy", "--model mlp --loss sparse_categorical_crossentropy --hidden 16"))

    def test_weights_know_their_model(self):
        """No option of the model is needed; another one is named. Converted weights and checkpoints know it, too."""
        archive = os.path.join(self.scratch.name, "same.npz")
        subprocess.run([LOCKSTEP, "convert", self.weights, archive], check=True, capture_output=True, timeout=LIMIT)
        found = {subprocess.run([LOCKSTEP, "evaluate", "--seed", "3", "--weights", weights, "--json"], capture_output=True, text=True,
                                check=True, timeout=LIMIT).stdout for weights in (self.weights, archive, self.checkpoints)}
        self.assertEqual(len(found), 1)
        self.assertEqual(json.loads(found.pop())["accuracy"], self.result["val_accuracy"])
        for option, value, trained in (("hidden", "32", "16"), ("model", "lenet", "mlp")):
            done = subprocess.run([LOCKSTEP, "evaluate", "--weights", archive, "--" + option, value], capture_output=True, text=True,
                                  timeout=LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--%s is '%s', and '%s' was trained with '%s'" % (option, value, archive, trained), done.stderr)

    def test_a_report_by_class(self):
        """Counted again, pair by pair, from what predict and convert write."""
        folder, outputs, limit = os.path.join(self.scratch.name, "arrays"), os.path.join(self.scratch.name, "report.npy"), "300"
        of_data = ("--seed", "3", "--limit", limit)
        subprocess.run([LOCKSTEP, "convert", "--dataset", "digits", "--to", "npy", "--split", "test", "--output", folder, *of_data],
                       check=True, capture_output=True, timeout=LIMIT)
        with open(os.path.join(folder, "y_test.npy"), "rb") as file:
            labels = struct.unpack("<300q", file.read()[-2400:])
        self.run_ok("predict", "--weights", self.weights, "--limit", limit, "--output", outputs)
        _, values = read_npy(outputs)
        said = [max(range(10), key=lambda c: values[10 * row + c]) for row in range(300)]
        found = last_json(self.run_ok("evaluate", "--weights", self.weights, "--limit", limit, "--report", "--json", workers=2))["report"]
        self.assertEqual(found["confusion"], [[sum(pair == (row, column) for pair in zip(labels, said)) for column in range(10)]
                                              for row in range(10)])
        for number, row in enumerate(found["classes"]):
            right = sum(pair == (number, number) for pair in zip(labels, said))
            own = [values[10 * i + number] for i in range(300) if labels[i] == number]
            others = [values[10 * i + number] for i in range(300) if labels[i] != number]
            wins = sum((a > b) + (a == b) / 2 for a in own for b in others)
            self.assertEqual((row["class"], row["examples"]), (number, labels.count(number)))
            self.assertAlmostEqual(row["precision"], right / max(1, said.count(number)), places=8)
            self.assertAlmostEqual(row["recall"], right / labels.count(number), places=8)
            self.assertAlmostEqual(row["f1"], 2 * right / (said.count(number) + labels.count(number)), places=8)
            self.assertAlmostEqual(row["auc"], wins / len(own) / len(others), places=8)
        for name in ("precision", "recall", "f1", "auc"):
            self.assertAlmostEqual(found["mean"][name], sum(row[name] for row in found["classes"]) / 10, places=8)
        text = self.run_ok("evaluate", "--weights", self.weights, "--limit", limit, "--report")
        self.assertRegex(text, r"mean +%.4f +%.4f" % (found["mean"]["precision"], found["mean"]["recall"]))

    def test_metrics_are_named(self):
        found = last_json(self.run_ok("evaluate", "--weights", self.weights, "--json", "--metrics", "top_k=3", workers=2))
        self.assertGreater(found["top_k_categorical_accuracy"], found["accuracy"])
        self.assertIn("top_k_categorical_accuracy: ", self.run_ok("evaluate", "--weights", self.weights, "--metrics", "top_k=3"))

    def test_predictions_do_not_depend_on_the_workers(self):
        path = os.path.join(self.scratch.name, "out.npy")
        options = ("--weights", self.weights, "--output", path, "--limit", "333", "--batch-size", "50")
        outputs = []
        for workers, devices in ((1, "1"), (2, "2"), (3, "1"), (2, "2")):
            self.run_ok("predict", *options, "--devices", devices, workers=workers)
            outputs.append(read_npy(path))
        self.assertEqual(outputs[0][0], (333, 10))
        with open("/proc/cpuinfo", encoding="ascii") as file:
            exact = " avx512f " in file.read()  # without it the math library rounds by the number of rows, too
        for shape, values in outputs[1:]:
            self.assertEqual(shape, (333, 10))
            for one, other in zip(outputs[0][1], values, strict=True):
                self.assertAlmostEqual(one, other, delta=0 if exact else 4e-5)
        self.assertEqual(outputs[1], outputs[3])
        for row in range(333):
            self.assertAlmostEqual(sum(outputs[0][1][10 * row:10 * row + 10]), 1, places=5)

    def test_formats_say_the_same(self):
        names = {ending: os.path.join(self.scratch.name, "same" + ending) for ending in (".npy", ".csv", ".jsonl")}
        for path in names.values():
            self.run_ok("predict", "--weights", self.weights, "--output", path, "--limit", "70", "--raw")
        _, values = read_npy(names[".npy"])
        with open(names[".csv"], encoding="ascii", newline="") as file:
            table = list(csv.reader(file))
        with open(names[".jsonl"], encoding="ascii") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(table[0], ["example", "class", *(str(i) for i in range(10))])
        for index, (row, line) in enumerate(zip(table[1:], lines, strict=True)):
            own = values[10 * index:10 * index + 10]
            best = max(range(10), key=lambda i: own[i])
            self.assertEqual(row[:2], [str(index), str(best)])
            self.assertEqual((line["example"], line["class"]), (index, best))
            for text, number, value in zip(row[2:], line["values"], own, strict=True):
                self.assertEqual(struct.unpack("<f", struct.pack("<f", float(text)))[0], value)
                self.assertEqual(struct.unpack("<f", struct.pack("<f", number))[0], value)

    def test_what_is_wrong_is_named(self):
        for command, options, status, word in (
                ("evaluate", (), 2, "--weights is missing"),
                ("evaluate", ("--weights", "/nowhere.safetensors"), 2, "/nowhere.safetensors"),
                ("evaluate", ("--weights", self.weights, "--hidden", "17"), 2, "--hidden is '17'"),
                ("evaluate", ("--weights", self.weights, "--split", "other"), 2, "--split 'other' is none of"),
                ("predict", ("--weights", self.weights), 2, "--output needs"),
                ("predict", ("--weights", self.weights, "--output", "a.txt"), 2, "--output needs"),
                ("predict", ("--weights", self.weights, "--limit", "9", "--output", "/nowhere/a.csv"), 1, "/nowhere/a.csv")):
            done = lockstep(command, *options)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
