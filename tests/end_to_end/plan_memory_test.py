#!/usr/bin/env python3
"""What lockstep plan says of memory and bytes is what workers are measured to have and to send; and the least sharding for a limit.

A process has more than a plan can say: libraries, data, stacks. So two sizes of a model are compared, which differ in what is
planned alone. glibc gives back what is freed, and takes no memory ahead."""
import json
import random
import re
import subprocess
import sys
import unittest

from cluster import ENDLESS, LIMIT, LOCKSTEP, SEED, Cluster, drawn, probe

TEXT = "/usr/share/common-licenses/GPL-3"
GPT = ["--model", "gpt", "--width", "128", "--heads", "4", "--context", "64", "--tokens", "bytes", "--dataset", TEXT, "--batch-size", "8"]
IMAGES = ["--model", "mobilenet_v2", "--dataset", "shapes", "--limit", "64", "--image-size", "64", "--batch-size", "8"]
MODELS = {"mlp": (["--model", "mlp", "--dataset", "digits", "--limit", "96", "--batch-size", "16"],
                  ["--hidden", "1024,512"], ["--hidden", "2048,1024"]),
          "gpt": (GPT, ["--layers", "4"], ["--layers", "16"]),
          "mobilenet": (IMAGES, ["--alpha", "0.35"], ["--alpha", "1.0"])}
SHARD = ["--shard", "optimizer"]
WAYS = [[], ["--recompute", "blocks"], SHARD, [*SHARD, "--shard-copies", "1"], ["--shard", "gradients"],
        ["--shard", "gradients", "--shard-copies", "1"]]
PLAIN = {"LOCKSTEP_ALGORITHM": "direct",  # others keep parts of sums beside, and the faster one is taken
         "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0", "MALLOC_ARENA_MAX": "1"}


def plan(workers, options):
    done = subprocess.run([LOCKSTEP, "plan", "-np", str(workers), *options, "--json"], capture_output=True, text=True, timeout=LIMIT)
    return json.loads(done.stdout or "null"), done


def is_instrumented():
    """Then its memory is the sanitizer's."""
    with open(LOCKSTEP, "rb") as program:
        return re.search(rb"__(asan|tsan)_init", program.read()) is not None


def kilobytes(task, name):
    with open("/proc/%d/status" % task.pid, encoding="ascii") as status:
        return int(re.search(name + r":\s+(\d+)", status.read()).group(1))


def activity(cluster):
    """Worker 0's steps, and the bytes of its collectives by then, to a step: it goes on meanwhile."""
    answer = probe(cluster.ports[0])
    return [int(re.search(r"\n%s=(\d+)" % name, answer).group(1)) for name in ("step", "bytes")]


def start(workers, options, transport):
    cluster = Cluster(workers, [LOCKSTEP, "train", *options, "--no-validation", "--verbose", "-1", *ENDLESS],
                      {"LOCKSTEP_TRANSPORT": transport, **PLAIN})
    cluster.start_all()
    cluster.wait_for_step(3)
    return cluster


def measure_memory(workers, options, transport):
    """Of worker 0 while it trains: the least of some steps, for what arrives before it is wanted takes memory for a moment. Of the
    memory that workers share it has its part. With gradients that are divided, the most, for they are whole for a moment."""
    cluster, least = start(workers, options, transport), sys.maxsize
    for step in range(4, 8):
        alone, shared = (kilobytes(cluster.tasks[("worker", 0)], name) for name in ("RssAnon", "RssShmem"))
        least = min(least, alone + shared // workers)
        cluster.wait_for_step(step)
    most = kilobytes(cluster.tasks[("worker", 0)], "VmHWM")
    cluster.kill_all()
    return 1024 * (most if "gradients" in options else least)


def measure_bytes(workers, options):
    """Of worker 0's collectives in a step: so many steps that one more or less at each end is nothing."""
    cluster = start(workers, options, "auto")
    first, before = activity(cluster)
    cluster.wait_for_step(first + 400)
    last, after = activity(cluster)
    cluster.kill_all()
    return (after - before) / (last - first)


def sent_of(vectors, workers, copies):
    """Of so many bytes of vectors. That of a gather is the worker's own; an all-reduce sends as much as the two halves of it."""
    gathers, reduces = 0 < copies < workers, 1 if copies == 1 else 2
    return vectors / (1 + gathers / workers) * (reduces + gathers) * (workers - 1) / workers


class PlanMemory(unittest.TestCase):
    def near(self, planned, measured, what):
        self.assertAlmostEqual(measured / planned, 1, delta=0.05, msg="%s: planned %d, measured %d" % (what, planned, measured))

    @unittest.skipIf(is_instrumented(), "memory is the sanitizer's")
    def test_memory_is_as_planned(self):
        print("# LOCKSTEP_TEST_SEED=%s" % SEED)
        draw = random.Random(SEED)
        for name in drawn(MODELS, "memory"):
            model, small, large = MODELS[name]
            more, workers = draw.choice(WAYS), draw.choice((2, 4))
            transport = "tcp" if "1" in more or "gradients" in more else draw.choice(("auto", "tcp"))
            print("#", name, workers, transport, *more)
            options = [[*model, *size, "--optimizer", "adam", *more] for size in (small, large)]
            planned = [plan(workers, each)[0]["tasks"][0]["memory"] for each in options]
            measured = [measure_memory(workers, each, transport) for each in options]
            self.near(planned[1] - planned[0], measured[1] - measured[0], "memory")

    def test_bytes_are_as_planned(self):
        draw = random.Random(SEED)
        for copies in drawn((0, 1, 2), "bytes", 2):
            workers, hidden = draw.choice((2, 3, 4)), str(draw.randrange(64, 200))
            shard = ["--shard", draw.choice(("optimizer", "gradients")), "--shard-copies", str(copies)] if copies else []
            options = ["--model", "mlp", "--hidden", hidden, "--dataset", "digits", "--batch-size", "16", *shard]
            print("#", workers, *options)
            sent = sent_of(measure_bytes(workers, options), workers, copies)
            self.near(plan(workers, options)[0]["tasks"][0]["sent"], sent, "bytes a step")

    def test_the_first_options_that_fit_are_told(self):
        draw = random.Random(SEED)
        options = [*GPT, "--layers", str(draw.randrange(1, 7)), "--optimizer", "adam", "--batch-size", str(draw.randrange(8, 65))]
        workers = draw.choice((1, 2, 4, 7))
        candidates = plan(workers, [*options, "--memory-limit", "1T"])[0]["candidates"]
        print("#", workers, *options, candidates)
        self.assertEqual(candidates[0]["options"], "")
        for candidate in candidates:
            limit = candidate["memory"]
            found = plan(workers, [*options, "--memory-limit", str(limit)])[0]
            self.assertEqual(found["fits"], next(each["options"] for each in candidates if each["memory"] <= limit))
            self.assertEqual((found["memory_limit"], found["candidates"]), (limit, candidates))
            with_them = plan(workers, [*options, *found["fits"].split()])[0]
            self.assertEqual(max(task["memory"] for task in with_them["tasks"]),
                             next(each["memory"] for each in candidates if each["options"] == found["fits"]))
        least = min(candidates, key=lambda each: each["memory"])
        _, done = plan(workers, [*options, "--memory-limit", str(least["memory"] - 1)])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("RESOURCE_EXHAUSTED: a worker needs %d bytes at least, with %s" % (least["memory"], least["options"]), done.stderr)

    def test_a_limit_is_a_size(self):
        for text in ("", "fast", "0", "-1G", "1Gbit", "8 GiB", "nan", "inf", "1e30"):
            _, done = plan(1, ["--memory-limit", text])
            self.assertEqual((done.returncode, done.stdout), (2, ""), text)
            self.assertIn("option '--memory-limit' needs bytes such as 512M or 8GiB, not '%s'" % text, done.stderr)
        small = ["--model", "mlp", "--hidden", "8", "--dataset", "digits"]
        self.assertEqual([plan(1, [*small, "--memory-limit", text])[0]["memory_limit"] for text in ("4M", "1.5MiB", "9000000B", "1G")],
                         [4 << 20, 3 << 19, 9000000, 1 << 30])


if __name__ == "__main__":
    unittest.main(verbosity=2)
