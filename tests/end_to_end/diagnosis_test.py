#!/usr/bin/env python3
"""The post-mortem of real workers: a killed rank, one that leaves out a collective, and what is said without a folder."""
import glob
import json
import os
import subprocess
import tempfile
import unittest

from cluster import LIMIT, LOCKSTEP, Cluster, train_command, wait_for_line

SKIP_CALL = os.environ.get("SKIP_CALL", "build/tests/end_to_end/skip_call")
LONG = train_command("--epochs", "100000", "--limit", "2000", "--no-validation", "--verbose", "2")


def timeline(*arguments):
    done = subprocess.run([LOCKSTEP, "timeline", *arguments], capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class FlightRecord(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def files(self):
        return sorted(glob.glob(os.path.join(self.folder.name, "*.json")))

    def run_skipping(self, how, **environment):
        cluster = Cluster(3, [SKIP_CALL, "2", "6", how],
                          {"LOCKSTEP_FLIGHT_RECORD_FOLDER": self.folder.name, **environment})
        cluster.start_all()
        results = cluster.finish()
        for status, _, stderr in results.values():
            self.assertIn(status, (1, 2, 138), stderr)
        self.assertEqual(len(self.files()), 3, results)
        return json.loads(timeline("--json", *self.files())), timeline(*self.files())

    def test_a_rank_that_leaves_out_a_call(self):
        summary, text = self.run_skipping("named")
        what = summary["difference"]["ranks"]
        self.assertEqual(what.pop("2"), "all_reduce 'gradients of layer 7' of 1 float32")
        self.assertEqual(set(what.values()), {"all_reduce 'gradients of layer 6' of 1 float32"})  # of who had come
        self.assertRegex(text, "the ranks do different things at #\\d+:\n")
        self.assertIn("  rank 2: all_reduce 'gradients of layer 7' of 1 float32\n", text)

    def test_a_rank_that_is_done_early(self):
        summary, text = self.run_skipping("alike", LOCKSTEP_COLLECTIVE_TIMEOUT="3", LOCKSTEP_EXIT_TIMEOUT="3")
        self.assertIsNone(summary["difference"])
        *others, skipper = [rank["standing"] for rank in summary["ranks"]]
        self.assertEqual(skipper, "missing")
        self.assertIn("waiting", others)  # the other one may have heard of it before it came to the call itself
        self.assertRegex(text, r"  never came: ranks? .*2\n")
        self.assertEqual(summary["last"]["what"], "all_reduce 'gradients' of 1 float32")
        self.assertEqual(summary["ranks"][2]["last"]["key"][0] + 1, summary["last"]["key"][0])

    def test_a_killed_rank(self):
        cluster = Cluster(3, LONG, {"LOCKSTEP_FLIGHT_RECORD_FOLDER": self.folder.name, "LOCKSTEP_FLIGHT_RECORD": "50",
                                    "LOCKSTEP_TRACE": os.path.join(self.folder.name, "t.json")})
        cluster.start_all()
        wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 3/")
        cluster.kill(1)
        results = cluster.finish()
        flights = [path for path in self.files() if "/flight.rank" in path]
        self.assertEqual(len(flights), 2)
        for index, path in zip((0, 2), flights):
            status, _, stderr = results[("worker", index)]
            self.assertEqual(status, 138, stderr)
            self.assertIn("flight record '%s': the last 50 collectives" % path, stderr)
        merged = os.path.join(self.folder.name, "merged")
        text = timeline("--output", merged, *flights, os.path.join(self.folder.name, "t.rank0.json"))
        self.assertIn("   1  no file\n", text)
        self.assertIn("not known, for there is no file: rank 1\n", text)
        self.assertRegex(text, "rank 0 ended with: .*worker:1 .rank 1, .* was lost")
        with open(merged) as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 2})
        self.assertEqual(sum(event["ph"] == "X" and event["tid"] == 1000 for event in events), 100)
        self.assertTrue([event for event in events if event["name"] == "backward"])

    def test_without_a_folder(self):
        for folder, said in (("", "LOCKSTEP_FLIGHT_RECORD_FOLDER names no folder"),
                             ("/nowhere", "no flight record: cannot write '/nowhere/flight.rank")):
            with self.subTest(folder=folder):
                cluster = Cluster(2, [SKIP_CALL, "1", "2", "named"], {"LOCKSTEP_FLIGHT_RECORD_FOLDER": folder})
                cluster.start_all()
                for (_, rank), (status, _, stderr) in cluster.finish().items():
                    self.assertNotEqual(status, 0, stderr)
                    self.assertEqual(said in stderr, folder != "" or rank == 0, stderr)
                    self.assertTrue(stderr.strip().splitlines()[-1].startswith("lockstep: error: "), stderr)

    def test_no_failure_no_file(self):
        cluster = Cluster(2, [SKIP_CALL, "-1", "0", "named"], {"LOCKSTEP_FLIGHT_RECORD_FOLDER": self.folder.name})
        cluster.start_all()
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 0, stderr)
            self.assertNotIn("LOCKSTEP_FLIGHT_RECORD", stderr)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
