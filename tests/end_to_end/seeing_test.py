#!/usr/bin/env python3
"""What people see of a training: TensorBoard's event files and the table of epochs, tag for tag as Keras writes them
(tests/golden/tensorboard.txt), with the numbers of --json; also where the training was interrupted."""
import csv
import os
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import events
from cluster import LIMIT, LOCKSTEP, half_of, last_json, train_command, workers_of

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden", "tensorboard.txt")
SMALL = ("--json", "--verbose", "-1", "--hidden", "8", "--limit", "600", "--batch-size", "64", "--epochs", "2")
BOARD = ("--tensorboard-steps", "5", "--tensorboard-histograms", "1", "--tensorboard-images")


def train(*options, workers=1):
    command = train_command(*options)
    if workers > 1:
        command = [LOCKSTEP, "run", "-np", str(workers), "--no-prefix", "--", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT)


def golden(kind):
    with open(GOLDEN, encoding="ascii") as file:
        return [line.split()[1:] for line in file if line.startswith(kind + " ")]


def rows(path):
    with open(path, encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


@half_of
class Seeing(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.board = os.path.join(scratch.name, "board")
        self.table = os.path.join(scratch.name, "log.csv")
        self.checkpoints = os.path.join(scratch.name, "checkpoints")

    def run_ok(self, *options, workers=1):
        done = train("--tensorboard", self.board, "--csv", self.table, *SMALL, *options, workers=workers)
        self.assertEqual(done.returncode, 0, done.stderr)
        return last_json(done.stdout)

    def part(self, name):
        return os.path.join(self.board, name)

    def test_tags_are_those_of_keras(self):
        self.run_ok(*BOARD)
        found = {}
        for part in ("train", "validation"):
            for event in events.folder(self.part(part)):
                shape = "x".join(str(extent) for extent in event.shape) or "scalar"
                found.setdefault((part, event.tag, event.plugin, event.dtype, shape), []).append(str(event.step))
        types = {str(number): name for number, name in events.TYPES.items()}
        self.assertEqual([[*key, ",".join(steps)] for key, steps in found.items()],
                         [[*line[:3], types[line[3]], *line[4:]] for line in golden("series")])
        with open(self.table, encoding="ascii") as file:
            self.assertEqual(file.readline().strip(), golden("csv")[0][0])

    def test_scalars_are_those_of_the_result(self):
        result = self.run_ok("--tensorboard-steps", "10", workers=2)
        trained, validated = events.scalars(self.part("train")), events.scalars(self.part("validation"))
        last = rows(self.table)[-1]
        self.assertEqual(len(os.listdir(self.part("train"))), 1)  # one worker writes
        for name in ("loss", "accuracy"):
            self.assertEqual(trained["epoch_" + name][1], struct.unpack("<f", struct.pack("<f", result[name]))[0])
            self.assertEqual(validated["epoch_" + name][1],
                             struct.unpack("<f", struct.pack("<f", result["val_" + name]))[0])
            self.assertEqual(validated["evaluation_%s_vs_iterations" % name][20], validated["epoch_" + name][1])
            self.assertEqual(trained["batch_" + name][20], trained["epoch_" + name][1])
            self.assertEqual(float(last[name]), result[name])
            self.assertEqual(float(last["val_" + name]), result["val_" + name])
        self.assertAlmostEqual(trained["epoch_learning_rate"][1], 0.1, places=7)
        self.assertGreater(trained["epoch_steps_per_second"][1], 0)

    def test_histograms_count_every_weight(self):
        self.run_ok("--tensorboard-histograms", "1", "--tensorboard-gradients")
        counts = {}
        for event in events.folder(self.part("train")):
            if event.plugin == "histograms":
                counts[event.tag] = sum(event.value[2::3])
        for name, count in (("dense/kernel", 784 * 8), ("dense/bias", 8), ("dense_1/kernel", 80), ("dense_1/bias", 10)):
            self.assertEqual(counts["sequential/%s/histogram" % name], count)
            self.assertEqual(counts["sequential/%s_grad/histogram" % name], count)

    def test_the_graph_is_that_of_the_layers(self):
        self.run_ok(workers=2)
        [graph] = events.graphs(self.part("train"))
        self.assertEqual(graph, {
            "sequential/input": events.Node("InputLayer", [], [-1, 28, 28, 1]),
            "sequential/dense": events.Node("Dense", ["sequential/input"], [-1, 8]),
            "sequential/dense_1": events.Node("Dense", ["sequential/dense"], [-1, 10])})
        self.assertEqual(events.graphs(self.part("validation")), [])
        self.board += "2"
        self.run_ok("--tensorboard-no-graph")
        self.assertEqual(events.graphs(self.part("train")), [])

    def test_the_graph_of_branches(self):
        done = train("--tensorboard", self.board, "--model", "mobilenet_v2", "--alpha", "0.35", "--dataset", "shapes", "--image-size",
                     "32x32", "--limit", "64", "--epochs", "1", "--no-validation")
        self.assertEqual(done.returncode, 0, done.stderr)
        [graph] = events.graphs(self.part("train"))
        self.assertEqual(graph["block_2_add"], events.Node("Add", ["block_2_project_BN", "block_1_project_BN"], [-1, 8, 8, 8]))
        self.assertEqual(graph["Conv1"], events.Node("Conv2D", ["input"], [-1, 16, 16, 16]))
        for name, node in graph.items():
            self.assertTrue(set(node.inputs) <= set(graph), name)

    def wait_for_rows(self, count):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not os.path.exists(self.table) or len(rows(self.table)) < count):
            time.sleep(0.01)

    def interrupt(self, options):
        """Kills the training when it has a checkpoint and has written something after it."""
        task = subprocess.Popen(train_command(*options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for_rows(4)
        task.send_signal(signal.SIGKILL)
        task.wait()
        self.assertEqual(task.returncode, -signal.SIGKILL)

    def test_what_is_repeated_is_there_once(self):
        os.mkdir(self.checkpoints)
        options = ("--tensorboard", self.board, "--tensorboard-steps", "3", "--csv", self.table, *SMALL, "--epochs", "12")
        kept = ("--checkpoint", self.checkpoints, "--checkpoint-steps", "7")
        self.interrupt([*options, *kept])
        with open(self.table, "ab") as file:
            file.write(b"99,torn")  # as a process that is killed while it writes leaves it
        done = train(*options, *kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(events.graphs(self.part("train"))), 1)
        self.check_undisturbed(1, *SMALL, "--epochs", "12")

    def test_rows_of_an_earlier_training_stay(self):
        """Those of this one that are repeated are there once behind them."""
        os.mkdir(self.checkpoints)
        self.assertEqual(train("--csv", self.table, *SMALL, "--epochs", "3").returncode, 0)
        with open(self.table, encoding="ascii") as file:
            old = file.read()
        options = ("--csv", self.table, "--csv-append", *SMALL, "--epochs", "12", "--checkpoint", self.checkpoints,
                   "--checkpoint-steps", "7")
        self.interrupt(options)
        self.assertEqual(train(*options).returncode, 0)
        with open(self.table, encoding="ascii") as file:
            self.assertTrue(file.read().startswith(old))
        self.assertEqual([int(row["epoch"]) for row in rows(self.table)], [0, 1, 2, *range(12)])

    def check_undisturbed(self, workers, *options):
        """What was written is what a training without an interruption writes."""
        again = {part: events.scalars(self.part(part)) for part in ("train", "validation")}
        table = rows(self.table)
        self.board, self.table = self.board + "2", self.table + "2"
        done = train("--tensorboard", self.board, "--tensorboard-steps", "3", "--csv", self.table, *options,
                     workers=workers)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(table, rows(self.table))
        for part in ("train", "validation"):
            for tag, values in events.scalars(self.part(part)).items():
                if "per_second" in tag:  # a time; of an epoch that another process has begun there is none
                    self.assertLessEqual(set(again[part][tag]), set(values), tag)
                    continue
                self.assertEqual(again[part][tag], values, tag)

    def test_the_one_that_writes_is_lost(self):
        """The chief is killed and comes back, while the other worker keeps its process."""
        options = [*SMALL, "--epochs", "40"]
        command = [LOCKSTEP, "run", "-np", "2", "--restart", "3", "--no-prefix", "--",
                   *train_command("--tensorboard", self.board, "--tensorboard-steps", "3", "--csv", self.table, *options)]
        task = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for_rows(5)
        os.kill(workers_of(task.pid)[0], signal.SIGKILL)
        out, err = task.communicate(timeout=2 * LIMIT)
        self.assertEqual(task.returncode, 0, err)
        self.assertIn("took the state of the training over from rank ", err)
        self.assertRegex(err, r"goes on in epoch \d+ after its step \d+")
        self.assertEqual(last_json(out)["steps"], 400)
        self.check_undisturbed(2, *options)

    def test_decisions_survive(self):
        """Patience, the best number and the best weights are those of an undisturbed training."""
        best = os.path.join(os.path.dirname(self.table), "best.safetensors")
        options = ["--csv", self.table, "--save-best", best, "--early-stopping", "6", "--restore-best", "--min-delta",
                   "0.002", "--reduce-on-plateau", "2", "--optimizer", "adam", "--learning-rate", "0.02", *SMALL,
                   "--epochs", "60"]
        os.mkdir(self.checkpoints)
        kept = ("--checkpoint", self.checkpoints, "--checkpoint-steps", "7")
        self.interrupt([*options, *kept])
        done = train(*options, *kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(best, "rb") as file:
            first = last_json(done.stdout), rows(self.table), file.read()
        os.remove(best)
        done = train(*options)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(best, "rb") as file:
            second = last_json(done.stdout), rows(self.table), file.read()
        for result, _, _ in (first, second):
            result.pop("samples_per_second")
        self.assertEqual(first, second)
        self.assertLess(second[0]["steps"], 600)  # it was stopped
        self.assertLess(float(second[1][-1]["learning_rate"]), 0.02)

    def test_the_best_weights_are_the_best(self):
        """restore_best_weights and save-best agree with the table; workers agree on when to end."""
        best = os.path.join(os.path.dirname(self.table), "best{epoch:02}-{val_loss:.4f}.safetensors")
        options = ["--csv", self.table, "--save-best", best, "--early-stopping", "2", "--restore-best", "--optimizer",
                   "adam", "--learning-rate", "0.1", *SMALL, "--epochs", "30"]
        done = [train(*options, "--devices", devices, workers=workers) for workers, devices in ((2, "1"), (1, "2"))]
        results = [last_json(one.stdout) for one in done]
        self.assertEqual(results[0]["weights_sha256"], results[1]["weights_sha256"])
        table = rows(self.table)
        least = min(table, key=lambda row: float(row["val_loss"]))
        self.assertEqual(int(least["epoch"]), len(table) - 3)
        for one in done:
            told = re.findall(r"early_stopping: val_loss was best after epoch (\d+): ([\d.]+); the model has the weights of that epoch", one.stderr)
            self.assertEqual(len(told), 1, one.stderr)
            self.assertEqual(int(told[0][0]), int(least["epoch"]) + 1)
            self.assertAlmostEqual(float(told[0][1]), float(least["val_loss"]), places=4)
        self.assertIn("best%02d-%.4f.safetensors" % (int(least["epoch"]) + 1, float(least["val_loss"])),
                      os.listdir(os.path.dirname(self.table)))

    def test_no_number_ends_all(self):
        done = train("--terminate-on-nan", "--learning-rate", "1000000", "--momentum", "0.99", *SMALL, "--hidden", "64,64,64",
                     workers=2)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("terminate_on_nan: the loss is nan: training has diverged"), 2, done.stderr)

    def test_what_cannot_be_written_is_named(self):
        for option, path in (("--tensorboard", "/nowhere/board"), ("--csv", "/nowhere/log.csv"), ("--csv", "/dev/full"),
                             ("--tensorboard", "/dev/full")):
            done = train(option, path, *SMALL)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(path, done.stderr)
            self.assertRegex(done.stderr, "No such file or directory|No space left on device|Not a directory")
            warned = train(option, path, "--log-errors", "warn", *SMALL)
            self.assertEqual(warned.returncode, 0, warned.stderr)
            self.assertEqual(last_json(warned.stdout)["steps"], 20)
            self.assertEqual(warned.stderr.count("training goes on without it"), 1, warned.stderr)

    def test_a_full_disk_is_named(self):
        """A folder of 64 KiB: the epochs' histograms fill it."""
        os.mkdir(self.board)
        before = "mount -t tmpfs -o size=64k none '%s'" % self.board
        command = train_command("--tensorboard", self.board, "--tensorboard-histograms", "1", *SMALL, "--epochs", "40")
        for extra, status in (((), 1), (("--log-errors", "warn"), 0)):
            done = subprocess.run(["unshare", "--mount", "sh", "-ec", before + ' && exec "$0" "$@"', *command, *extra],
                                  capture_output=True, text=True, timeout=2 * LIMIT)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("No space left on device", done.stderr)
            self.assertIn(self.board + "/train/events", done.stderr)

    def test_options_that_do_not_fit(self):
        for options, word in ((("--tensorboard-steps", "3"), "need '--tensorboard DIR'"), (("--csv-append",), "--csv FILE"),
                              (("--tensorboard", "x", "--tensorboard-images"), "--tensorboard-histograms"),
                              (("--log-errors", "maybe"), "maybe")):
            done = train(*options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
