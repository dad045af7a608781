#!/usr/bin/env python3
"""lockstep plan says before a training what the training itself says: memory of workers, parts of servers, who has which replicas."""
import json
import os
import random
import re
import subprocess
import unittest

from cluster import LIMIT, LOCKSTEP, expect_ends, last_json, start_with_servers

SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))
NOBODY = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
DATA = ["--dataset", "digits", "--limit", "96"]
RULES = [["sgd"], ["sgd", "--momentum", "0.9"], ["adam"], ["lamb"], ["rmsprop", "--momentum", "0.5", "--centered"]]


def plan(*options, environment=NOBODY):
    done = subprocess.run([LOCKSTEP, "plan", *options, "--json"], env=environment, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def train(workers, servers, options):
    """What rank 0 says, and the lines of each server."""
    command = [LOCKSTEP, "train", *options, "--no-validation", "--epochs", "1", "--verbose", "-1", "--json"]
    results = start_with_servers(workers, servers, command, {}, plain=servers).finish()
    expect_ends(unittest.TestCase(), results)
    return last_json(results[("worker", 0)][1]), [results[("ps", index)][2] for index in range(servers)]


def draw_model(draw):
    hidden = ",".join(str(draw.randrange(1, 400)) for _ in range(draw.randrange(1, 4)))
    return [*draw.choice((["--model", "mlp", "--hidden", hidden], ["--model", "mlp", "--hidden", "none"], ["--model", "lenet"])), *DATA,
            "--optimizer", *draw.choice(RULES), "--devices", draw.choice("12"), "--batch-size", str(draw.randrange(8, 97)),
            *draw.choice(([], ["--bytes-per-pack", str(draw.randrange(1000, 200000))]))]


class Plan(unittest.TestCase):
    def expect_memory(self, planned, said):
        self.assertEqual(planned["planned_bytes"], said["planned_bytes"])
        self.assertEqual(planned["arena_bytes"], said["arena_bytes"])
        self.assertEqual(planned["replicas"], said["num_replicas_in_sync"])
        kept, again, blocks = planned["layers"]  # without normalizations nothing is made again
        self.assertEqual([layers["recompute"] for layers in planned["layers"]], ["none", "activations", "blocks"])
        self.assertEqual({**kept, "recompute": "blocks"}, {**again, "recompute": "blocks"})
        self.assertEqual({**again, "recompute": "blocks"}, blocks)
        self.assertTrue(0 < again["arena_bytes"] <= planned["arena_bytes"] and again["moved_bytes"] > 0, planned)

    def test_making_again_costs_bytes_and_saves_memory(self):
        options = ["--model", "mobilenet_v2", "--alpha", "0.35", "--dataset", "shapes", "--image-size", "32", "--batch-size", "8"]
        most = plan(*options, "--recompute", "none")["arena_bytes"]
        planned = plan(*options)
        kept, again, blocks = planned["layers"]
        self.assertEqual({**again, "recompute": "blocks"}, blocks)  # a network with convolutions has none
        self.assertLess(again["arena_bytes"], kept["arena_bytes"])
        self.assertGreater(again["moved_bytes"], kept["moved_bytes"])
        self.assertTrue(again["arena_bytes"] <= planned["arena_bytes"] < most and kept["arena_bytes"] <= most, (most, planned))

    def test_blocks_of_a_transformer_keep_their_input(self):
        options = ["--model", "gpt", "--layers", "6", "--width", "64", "--context", "64", "--tokens", "bytes", "--batch-size", "8",
                   "--dataset", "/usr/share/common-licenses/GPL-3"]
        for at, layers in enumerate(plan(*options)["layers"]):
            self.assertLessEqual(layers["arena_bytes"], plan(*options, "--recompute", layers["recompute"])["arena_bytes"])
            self.assertLessEqual(layers["arena_bytes"], [1, 0.75, 0.4][at] * plan(*options)["layers"][0]["arena_bytes"])

    def test_many_workers_halve_and_double_where_nothing_is_compressed(self):
        options = ["-np", "40", "--model", "mlp", *DATA, "--batch-size", "80"]
        self.assertEqual(plan(*options)["all_reduce"], "halving-doubling")
        self.assertEqual(plan(*options, "--compression", "bf16")["all_reduce"], "direct")

    def test_servers_keep_what_is_planned(self):
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw = random.Random(SEED)
        for _ in range(4):
            workers, servers = draw.randrange(1, 4), draw.randrange(1, 5)
            options = [*draw_model(draw), "--strategy", "parameter-server", "--ps-replicas", draw.choice("123")]
            print("#", workers, servers, *options)
            planned = plan("-np", str(workers), "--ps", str(servers), *options)
            said, lines = train(workers, servers, options)
            self.expect_memory(planned, said)
            of_servers = planned["tasks"][workers:]
            self.assertEqual(sum(task["elements"] for task in of_servers), planned["parameters"])
            for task, text in zip(of_servers, lines):
                self.assertEqual(sum(task["variables"].values()), task["elements"])
                self.assertIn("its part takes %.1f MB" % (task["part"] / 1e6), text)
                moments, copies = re.search(r"variables and (\d+) moments .* (\d+) cop", text).groups()
                self.assertEqual((int(moments), int(copies)), (planned["moments"], min(planned["copies"], servers)))
            copied = sum(task["received"] for task in of_servers) - sum(task["sent"] for task in planned["tasks"][:workers])
            self.assertEqual(copied, sum(task["sent"] for task in of_servers) - sum(task["received"] for task in planned["tasks"][:workers]))

    def test_workers_own_what_is_planned(self):
        draw = random.Random(SEED + 3)
        for _ in range(2):
            workers, copies, options = draw.randrange(1, 5), draw.randrange(1, 4), draw_model(draw)
            print("#", workers, copies, *options)
            shard = ["--shard", draw.choice(("optimizer", "gradients")), "--shard-copies", str(copies)]
            planned, whole = plan("-np", str(workers), *options, *shard), plan("-np", str(workers), *options)
            self.expect_memory(planned, train(workers, 0, [*options, *shard])[0])
            moments, held = 4 * planned["parameters"] * planned["moments"], min(copies, workers)
            self.assertEqual(planned["shard_copies"], held)
            self.assertLessEqual(planned["moment_bytes"], held * (moments / workers + 3 * 4 * 1024 * planned["moments"]))
            sent = [sum(task["sent"] for task in each["tasks"]) for each in (planned, whole)]
            self.assertTrue(sent[0] <= 1.6 * sent[1] and (sent[0] >= 1.3 * sent[1] or held in (1, workers)), (planned, whole))

    def test_servers_keep_tables_as_planned(self):
        draw = random.Random(SEED + 2)
        for more in ([], ["--hybrid"]):
            rows, width, workers, servers = draw.randrange(10000, 40000), draw.randrange(1, 40), draw.randrange(2, 4), draw.randrange(1, 5)
            options = ["--model", "embedding", "--embedding", "%dx%d" % (rows, width), "--limit", "256", "--hidden", str(draw.randrange(1, 80)),
                       "--optimizer", *draw.choice(RULES[:3]), "--batch-size", str(draw.randrange(8, 65)), "--strategy", "parameter-server",
                       "--ps-replicas", draw.choice("12"), "--sparse", "always", *more]
            print("#", workers, servers, *options)
            planned = plan("-np", str(workers), "--ps", str(servers), "--measure", "2", *options)
            said, lines = train(workers, servers, options)
            self.expect_memory(planned, said)
            of_workers, of_servers = planned["tasks"][:workers], planned["tasks"][workers:]
            table, = planned["tables"]
            self.assertEqual((table["name"], table["rows"], table["width"]), ("embedding/embeddings", rows, width))
            self.assertEqual(table["touched"], min(10 * of_workers[0]["rows"], rows))
            self.assertEqual(sum(task["variables"].get(table["name"], 0) for task in of_servers), rows * width)
            for task, text in zip(of_servers, lines):
                self.assertIn("its part takes %.1f MB" % (task["part"] / 1e6), text)
            if not more:
                self.assertEqual(sum(task["elements"] for task in of_servers), planned["parameters"])
            ids = sum(10 * task["rows"] for task in of_workers)
            self.assertGreaterEqual(sum(task["received"] for task in of_servers), ids * 4 * (1 + width))
            self.assertLess(sum(task["received"] for task in of_servers), rows * width * 4)
            self.assertGreater(planned["compute_seconds"], 0)

    def test_the_rule_makes_a_table_dense(self):
        options = ["--model", "embedding", "--strategy", "parameter-server", "--batch-size", "64", "--ps", "1"]
        self.assertEqual(len(plan("-np", "2", *options)["tables"]), 1)  # 640 ids are 0.064 of the rows; the limit is 0.5
        for more in (["-np", "1"], ["-np", "2", "--sparse", "never"], ["-np", "2", "--embedding", "1000x4"]):
            self.assertEqual(plan(*options, *more)["tables"], [])
        self.assertEqual(plan("-np", "2", "--model", "embedding")["tables"], [])

    def test_workers_have_what_is_planned(self):
        draw = random.Random(SEED + 1)
        local = ["--strategy", "local-sgd", "--sync-every", "2", "--outer-learning-rate", "0.5"]
        for strategy in ([], local, [*local, "--fragments", "2"]):
            options = [*draw_model(draw), *strategy]
            workers = draw.randrange(1, 4)
            print("#", workers, *options)
            planned = plan("-np", str(workers), *options)
            said, _ = train(workers, 0, options)
            self.expect_memory(planned, said)
            self.assertEqual(sum(task["rows"] for task in planned["tasks"]), planned["batch"])
            self.assertEqual(planned["steps"], 2 if strategy else 1)
            self.assertEqual(sum(task["sent"] for task in planned["tasks"]), sum(task["received"] for task in planned["tasks"]))

    def test_bytes_on_paper(self):
        """2 (n - 1) / n of the vector between workers; the table of docs/parameter-server.md with servers."""
        model = ["--model", "mlp", "--hidden", "512,512", *DATA]
        whole = plan("-np", "2", *model)["tasks"][0]["sent"]  # n = 2: once the vector
        for workers, servers, times in ((4, 0, 1.5), (8, 0, 1.75), (4, 1, 1.33), (4, 2, 1.2), (8, 4, 1.27), (4, 4, 1.0)):
            planned = plan("-np", str(workers), "--ps", str(servers), *model)
            self.assertEqual(planned["all_reduce"], "assist" if servers else "direct")
            most = max(max(task["sent"], task["received"]) for task in planned["tasks"])
            self.assertAlmostEqual(most / whole, times, delta=0.011, msg=planned)
        half = plan("-np", "4", "--compression", "fp16", *model)["tasks"][0]["sent"]
        self.assertAlmostEqual(half / whole, 0.75, delta=0.01)

    def test_time_follows_from_bandwidth_and_from_what_is_measured(self):
        model = ["-np", "4", "--bandwidth", "100Mbit/s", *DATA]
        planned = plan(*model)
        self.assertIsNone(planned["compute_seconds"])
        self.assertAlmostEqual(planned["wire_seconds"], planned["tasks"][0]["sent"] * 8 / 1e8, delta=1e-4)
        self.assertAlmostEqual(planned["step_seconds"], planned["wire_seconds"], delta=1e-9)
        slow = plan(*model[:2], "--bandwidth", "1G", *DATA, "--measure", "3")
        self.assertAlmostEqual(slow["wire_seconds"] * 10, planned["wire_seconds"], delta=1e-6)
        self.assertGreater(slow["compute_seconds"], 0)
        self.assertGreaterEqual(slow["step_seconds"], max(slow["compute_seconds"], slow["wire_seconds"]))
        every = plan(*model, "--strategy", "local-sgd", "--sync-every", "10")
        self.assertAlmostEqual(every["step_seconds"] * 10, planned["wire_seconds"], delta=planned["wire_seconds"] / 50)

    def test_the_cluster_is_that_of_tf_config(self):
        cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1"]}
        for task in ({"type": "worker", "index": 1}, {"type": "ps", "index": 0}, {"type": "chief", "index": 0}):
            environment = {**NOBODY, "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
            planned = plan("--strategy", "parameter-server", "--devices", "2", *DATA, environment=environment)
            self.assertEqual([task["task"] for task in planned["tasks"]], ["chief:0", "worker:0", "worker:1", "ps:0", "ps:1"])
            self.assertEqual([task.get("first_replica") for task in planned["tasks"]], [0, 2, 4, None, None])
        text = subprocess.run([LOCKSTEP, "plan", "--strategy", "parameter-server", *DATA], env=environment, capture_output=True, text=True,
                              timeout=LIMIT, check=True).stdout
        for words in ("parameter-server: 3 workers, 3 replicas, 2 parameter servers", "chief:0 ", "ps:1 ", "dense/kernel"):
            self.assertIn(words, text)

    def test_what_cannot_be_is_named(self):
        for options, words in ((["--strategy", "parameter-server"], "there is no ps task"), (["--ps", "2"], "'--ps' needs '--np N'"),
                               (["-np", "2", "--ps", "1", "--strategy", "parameter-server", "--consistency", "async"], "leave '--consistency' out"),
                               (["--bandwidth", "fast"], "bits a second such as 100Mbit/s"),
                               (["-np", "2", "--strategy", "local-sgd", "--sync-every", "3", "--fragments", "2"], "no multiple of fragments 2"),
                               (["-np", "2", "--strategy", "local-sgd", "--sync-every", "9", "--fragments", "9"], "more than the 6 variables")):
            done = subprocess.run([LOCKSTEP, "plan", *DATA, *options], env=NOBODY, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
