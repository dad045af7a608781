#!/usr/bin/env python3
"""Hosts that share nothing but a link: network, process and memory namespaces of this machine. Needs root."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import LIMIT, LOCKSTEP, PACE, drawn, last_json, run_local, train_command, wait_for_line

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
from hosts import LINKS, Hosts, administer, why_not  # noqa: E402
from run import cluster_tasks, environment, find_descendants, run_together  # noqa: E402

EXECUTABLE = os.path.abspath(LOCKSTEP)
SWITCH = os.path.join(os.path.dirname(EXECUTABLE), "bench", "delay_switch")
SMALL = ("--limit", "2000", "--epochs", "2", "--no-validation", "--batch-size", "70")


def run_between(hosts, a_host, command):
    """One worker after the other on each host; the first one's JSON object."""
    places = [host for host in hosts for _ in range(a_host)]
    tasks = cluster_tasks("%s:%d" % (host.address, 2222 + at) for at, host in enumerate(places))
    command = [EXECUTABLE, *command]
    return last_json(run_together([(host.enter(command), environment(**task)) for host, task in zip(places, tasks)], 120))


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "XZ"
    except FileNotFoundError:
        return False


def part(hosts, one, other, command="replace"):
    """Packets between two hosts go nowhere, and neither hears so; others reach both. "del": no more."""
    for here, there in ((one, other), (other, one)):
        lost = ["lladdr", "02:00:00:00:00:99", "nud", "permanent"] if command == "replace" else []
        administer(hosts[here].enter(["ip", "neigh", command, hosts[there].address, *lost, "dev", "eth0"]))


class Pair:
    """A chief, a worker and a parameter server. The latter two do not reach each other until all three have said so."""

    def __init__(self, options, **settings):
        self.said = [tempfile.TemporaryFile("w+") for _ in range(3)]
        self.hosts = Hosts(3, LINKS["plain"])
        self.options, self.settings = options, settings

    def __enter__(self):
        self.hosts.__enter__()
        part(self.hosts, 1, 2)
        addresses = ["%s:2222" % host.address for host in self.hosts]
        self.named = "ps:0 (%s) (rank 2) and worker:1 (%s) (rank 1) are cut off from each other" % (addresses[2], addresses[1])
        train = [EXECUTABLE, *train_command(*self.options)[1:]]
        self.tasks = []
        for number, host in enumerate(self.hosts):
            task = {"type": "worker", "index": number} if number < 2 else {"type": "ps", "index": 0}
            config = json.dumps({"cluster": {"worker": addresses[:2], "ps": addresses[2:]}, "task": task})
            self.tasks.append(subprocess.Popen(
                host.enter(train if number < 2 else [EXECUTABLE, "serve"]), stdout=subprocess.PIPE, stderr=self.said[number], text=True,
                env=environment(TF_CONFIG=config, LOCKSTEP_REJOIN_TIMEOUT="60", **self.settings)))
        return self

    def __exit__(self, *_):
        self.hosts.__exit__() # with all that runs there
        for task in self.tasks:
            task.communicate()
        for said in self.said:
            said.close()

    def read(self):
        for said in self.said:
            said.seek(0)
        return [said.read() for said in self.said]

    def end(self):
        """What the chief printed, when the link is whole again and all have ended."""
        deadline = time.monotonic() + 60
        while not all(self.named in said for said in self.read()):
            if time.monotonic() > deadline:
                raise AssertionError("who is cut off is not named:\n" + "\n".join(self.read()))
            time.sleep(0.1)
        part(self.hosts, 1, 2, "del")
        outs = [task.communicate(timeout=LIMIT)[0] for task in self.tasks]
        if any(task.returncode for task in self.tasks):
            raise AssertionError("\n".join(self.read()))
        return outs[0]


class Network(unittest.TestCase):
    def test_two_hosts_train_to_the_bits_of_one(self):
        here = run_local(4, 1, *SMALL)
        train = train_command("--json", "--verbose", "-1", *SMALL)[1:]
        with Hosts(2, LINKS["plain"]) as hosts:
            two_a_host = run_between(hosts, 2, train)
            two_devices = run_between(hosts, 1, [*train, "--devices", "2"])
        self.assertEqual([two_a_host["num_workers"], two_devices["num_workers"]], [4, 2])
        self.assertEqual({here["weights_sha256"]}, {two_a_host["weights_sha256"], two_devices["weights_sha256"]})

    def test_hosts_cannot_share_memory(self):
        with Hosts(2, LINKS["plain"]) as hosts:
            result = run_between(hosts, 1, ["bench", "all-reduce", "--bytes", "4K,1M", "--iterations", "3", "--check",
                                            "--json"])
        self.assertEqual(result["transport"], "tcp")
        self.assertEqual([row["wrong"] for row in result["rows"]], [0, 0])

    def test_a_cut_link_is_named_on_both_sides(self):
        train = [EXECUTABLE, *train_command("--epochs", "100000", "--limit", "2000", "--no-validation", "--verbose", "2")[1:]]
        """And the side that is alone says so, where it can tell."""
        for transport, count in (("auto", 3), ("tcp", 2)):
            with self.subTest(transport=transport), Hosts(count, LINKS["plain"]) as hosts:
                tasks = cluster_tasks("%s:2222" % host.address for host in hosts)
                limits = {"LOCKSTEP_HEARTBEAT_LIMIT": "%g" % PACE, "LOCKSTEP_TRANSPORT": transport, "LOCKSTEP_REJOIN_TIMEOUT": "0"}
                workers = [subprocess.Popen(host.enter(train), env=environment(**task, **limits), text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                           for host, task in zip(hosts, tasks)]
                wait_for_line(workers[0].stdout, "Epoch 2/")
                administer(hosts[1].enter("ip link set eth0 down".split()))
                for rank, worker in enumerate(workers):
                    _, said = worker.communicate(timeout=LIMIT)
                    self.assertEqual(worker.returncode, 138, said)
                    last = said.strip().splitlines()[-1]
                    found = re.search(r"worker:(\d) \(rank (\d), ([0-9.]+):2222\) was lost: silent for .* s, cut off ", last)
                    self.assertIsNotNone(found, last)
                    lost = int(found.group(1))
                    self.assertEqual(found.groups()[1:], (str(lost), hosts[lost].address))
                    self.assertEqual(lost == 1, rank != 1, last)
                    self.assertEqual("this one that is cut off" in last, rank == 1 and count > 2, last)

    def test_a_server_and_a_worker_that_are_cut_off_from_each_other_are_named(self):
        """By all three; then training goes on, with the bits of one that nothing disturbs."""
        options = ("--limit", "512", "--epochs", "3", "--batch-size", "64", "--no-validation", "--optimizer", "adam")
        wanted = run_local(1, 2, *options)["weights_sha256"]
        adds = Pair([*options, "--json", "--verbose", "-1"], LOCKSTEP_ALGORITHM="assist", LOCKSTEP_PS="required")
        keeps = Pair([*options, "--json", "--verbose", "-1", "--strategy", "parameter-server"])
        with adds, keeps:
            self.assertEqual(last_json(adds.end())["weights_sha256"], wanted)
            self.assertEqual(last_json(keeps.end())["weights_sha256"], wanted)

    def test_the_benchmark(self):
        """The numbers are not looked at, but they are there, and so is the delay, where this machine can make one."""
        links = [name for name in ("1gbit", "1ms") if not why_not(LINKS[name], SWITCH)]
        self.assertIn("1gbit", links)
        links = drawn(links, self.id(), 1)
        command = [os.path.join(BENCH, "network"), "--links", ",".join(links), "--hosts", "2", "--bytes", "4K,1M",
                   "--rounds", "1", "--no-peers", "--no-probe", "--lockstep", EXECUTABLE, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual([(case["link"], case["hosts"]) for case in result["cases"]], [(name, 2) for name in links])
        for case in result["cases"]:
            for row in case["rows"]:
                self.assertGreater(row["results"][str(1 << 20)]["busbw_mbps"], 0, row)
                self.assertGreater(row["results"][str(4 << 10)]["time_us"], LINKS[case["link"]].delay_us, row)
        self.assertGreater(result["wire"]["one"], 16e6)

    def test_nothing_outlives_a_killed_benchmark(self):
        command = [os.path.join(BENCH, "network"), "--links", "1gbit", "--hosts", "2", "--bytes", "64M", "--rounds",
                   "9", "--no-peers", "--no-probe", "--lockstep", EXECUTABLE]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        bench = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=folder.name))
        wait_for_line(bench.stderr, "round 1")
        below, deadline = set(), time.monotonic() + 20
        while len(below) < 10 and time.monotonic() < deadline:  # 2 hosts and a bridge, 2 workers
            time.sleep(0.2)
            below = find_descendants([bench.pid])
        self.assertGreaterEqual(len(below), 10)
        bench.kill()
        bench.communicate()
        while any(is_running(pid) for pid in below) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertFalse([pid for pid in below if is_running(pid)])


if __name__ == "__main__":
    reason = why_not(LINKS["1gbit"])
    if reason:
        print("SKIP: no namespaces here: %s" % reason, file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
