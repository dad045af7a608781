#!/usr/bin/env python3
"""The timeline of real workers: valid JSON with every span where it belongs, and buckets reduced during backward."""
import json
import os
import subprocess
import tempfile
import unittest

from cluster import LIMIT, LOCKSTEP, last_json, run_local, train_command

STEPS = 4
# From the tail: small layers whose bucket is ready at once, then two large ones that keep backward busy for long.
TRAINING = ("--hidden", "1024,1024,1024,16", "--limit", "512", "--batch-size", "256", "--epochs", "2",
            "--no-validation")
BUCKETS = {"LOCKSTEP_FIRST_BUCKET": "64K", "LOCKSTEP_BUCKET": "1M"}
LAYERS = ["dense_4", "dense_3", "dense_2", "dense_1", "dense"]
COMMUNICATOR = 2  # the thread after the two replicas


def end(span):
    return span["ts"] + span["dur"]


class Timeline:
    def __init__(self, path):
        with open(path) as file:
            self.file = json.load(file)
        events = self.file["traceEvents"]
        self.spans = [event for event in events if event["ph"] == "X"]
        self.labels = {(event["name"], event.get("tid")): event["args"].get("name") for event in events
                       if event["ph"] == "M"}

    def of(self, step, name, tid=None):
        return [span for span in self.spans if span["name"] == name and span["args"]["step"] == step
                and tid in (None, span["tid"])]


class Trace(unittest.TestCase):
    def check_replica(self, timeline, step, tid):
        """input, forward, backward with its layers, waiting, update: one after the other, once each."""
        names = ["input", "forward", "backward", "wait for buckets", "update"]
        spans = [timeline.of(step, name, tid) for name in names]
        self.assertEqual([len(found) for found in spans], [1] * len(names), (step, tid))
        spans = [found[0] for found in spans]
        for before, after in zip(spans, spans[1:]):
            self.assertLessEqual(end(before), after["ts"] + 0.01, (before, after))
        backward, layers = spans[2], [timeline.of(step, name, tid) for name in LAYERS]
        self.assertEqual([len(found) for found in layers], [1] * len(LAYERS))
        inside = [found[0] for found in layers]
        self.assertEqual(sorted(inside, key=lambda span: span["ts"]), inside)
        self.assertGreaterEqual(inside[0]["ts"] + 0.01, backward["ts"])
        self.assertLessEqual(end(inside[-1]), end(backward) + 0.01)

    def check_buckets(self, timeline, step):
        """Each once, in order; the last one by a replica, the others by the communicator."""
        reduced = sorted(timeline.of(step, "all-reduce"), key=lambda span: span["ts"])
        self.assertEqual([span["args"]["bucket"] for span in reduced], list(range(len(reduced))))
        self.assertGreater(len(reduced), 2)
        self.assertEqual({span["tid"] for span in reduced[:-1]}, {COMMUNICATOR})
        self.assertIn(reduced[-1]["tid"], (0, 1))
        for before, after in zip(reduced, reduced[1:]):
            self.assertLessEqual(end(before), after["ts"] + 0.01)
        return [span["args"]["bytes"] for span in reduced]

    def check_step(self, timeline, step):
        whole = timeline.of(step, "step")
        self.assertEqual([span["tid"] for span in whole], [0])
        for span in timeline.spans:
            if span["args"].get("step") == step:
                self.assertGreaterEqual(span["ts"] + 0.01, whole[0]["ts"], span)
                self.assertLessEqual(end(span) - 0.01, end(whole[0]), span)

    def test_two_workers_of_two_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.json")
            traced = run_local(2, 2, *TRAINING, "--trace", path, environment=BUCKETS)
            self.assertEqual(sorted(os.listdir(folder)), ["t.rank0.json", "t.rank1.json"])
            timelines = [Timeline(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
        self.assertEqual(traced["steps"], STEPS)
        sizes, overlapped = [], 0
        for rank, timeline in enumerate(timelines):
            self.assertEqual({span["pid"] for span in timeline.spans}, {rank})
            self.assertEqual([timeline.labels["thread_name", tid] for tid in range(3)],
                             ["replica %d" % (2 * rank), "replica %d" % (2 * rank + 1), "communicator"])
            self.assertEqual(timeline.file["otherData"]["dropped_spans"], 0)
            for step in range(1, STEPS + 1):
                for tid in (0, 1):
                    self.check_replica(timeline, step, tid)
                self.check_step(timeline, step)
                sizes.append(self.check_buckets(timeline, step))
                backward = max(end(span) for span in timeline.of(step, "backward"))
                overlapped += any(span["ts"] < backward for span in timeline.of(step, "all-reduce"))
        self.assertTrue(all(each == sizes[0] for each in sizes), sizes)
        self.assertGreater(overlapped, 0, "no bucket was reduced before backward had ended")
        self.assertEqual(traced["weights_sha256"], run_local(2, 2, *TRAINING)["weights_sha256"])

    def test_one_worker_of_two_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.json")
            done = self.train_alone("--trace", path, "--devices", "2")
            self.assertEqual(done.returncode, 0, done.stderr)
            timeline = Timeline(path)
        self.assertEqual(len(timeline.of(1, "all-reduce", 0) + timeline.of(1, "all-reduce", 1)), 2)
        self.assertEqual(timeline.of(1, "wait for buckets"), [])

    def test_bare_collectives(self):
        """Each call of a communicator is a span, with its name, number and bytes; the timelines of the ranks fit together."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.json")
            done = subprocess.run([LOCKSTEP, "run", "-np", "2", "--", LOCKSTEP, "bench", "all-reduce", "--bytes", "4K"],
                                  capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "LOCKSTEP_TRACE": path})
            self.assertEqual(done.returncode, 0, done.stderr)
            paths = [os.path.join(folder, f"t.rank{rank}.json") for rank in (0, 1)]
            spans = [[span for span in Timeline(path).spans if span["name"] == "all-reduce bench"] for path in paths]
            told = subprocess.run([LOCKSTEP, "timeline", *paths], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("2 ranks", told.stdout)
        self.assertNotIn(" 0 collectives in common", told.stdout)
        self.assertGreater(len(spans[0]), 2)
        self.assertEqual([span["args"] for span in spans[0]], [span["args"] for span in spans[1]])
        self.assertIn(4096, {span["args"]["bytes"] for span in spans[0]})
        steps = [span["args"]["step"] for span in spans[0]]
        self.assertEqual(sorted(set(steps)), steps)

    def train_alone(self, *options):
        command = train_command("--json", "--limit", "200", "--epochs", "1", "--verbose", "-1", *options)
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)

    def test_a_path_that_cannot_be_written(self):
        """At the start where it shows there; at the end the training's numbers are whole, and the status says it."""
        for path, why, trained in (("/nowhere/t.json", "No such file or directory", False),
                                   ("/dev/full", "No space left on device", True)):
            done = self.train_alone("--trace", path)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(bool(done.stdout), trained)
            lines = [line for line in done.stderr.splitlines() if path in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertIn("error", lines[0])
            self.assertIn(why, lines[0])

    def test_an_empty_path(self):
        done = subprocess.run([LOCKSTEP, "train", "--trace", ""], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--trace needs a path", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
