#!/usr/bin/env python3
"""Asking from outside: lockstep check --connect and lockstep top before, during and after training, which does not notice;
and what else may listen on a port."""
import json
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from cluster import (ENDLESS, LIMIT, LOCKSTEP, Cluster, expect_ends, expect_undisturbed, probe, train_command,
                     wait_for_line)

STEPS = 8  # of an epoch of 1000 examples
LONG = train_command("--epochs", "100000", "--limit", "2000", "--no-validation", "--verbose", "2")


def check(cluster, *options):
    config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    done = subprocess.run([LOCKSTEP, "check", "--connect", "--json", "--tf-config", config, *options],
                          capture_output=True, text=True, timeout=LIMIT)
    if done.returncode > 1:
        raise AssertionError(done.stderr)
    found = json.loads(done.stdout)
    if (done.returncode == 0) != found["fine"]:
        raise AssertionError("exit status %d with %s" % (done.returncode, done.stdout))
    return found


def check_one(address, *options):
    return check({"worker": [address]}, *options)["peers"][0]


def top(*options):
    return subprocess.run([LOCKSTEP, "top", *options], capture_output=True, text=True, timeout=LIMIT)


class Listener(threading.Thread):
    """Somebody else on a port, who answers each connection with the same bytes; None: with nothing, and stays."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.answer = answer
        self.start()

    def run(self):
        kept = []
        while True:
            connection, _ = self.socket.accept()
            kept.append(connection)
            if self.answer is not None:
                connection.recv(64)
                try:
                    connection.sendall(self.answer)
                except OSError:
                    pass  # who asked has heard enough
                connection.close()


class Probes(unittest.TestCase):
    def start(self, count, *indices):
        cluster = Cluster(count, LONG, {"LOCKSTEP_REPORT_INTERVAL": "0.2", "LOCKSTEP_HEARTBEAT_LIMIT": "60"})
        self.addCleanup(cluster.kill_all)
        for index in indices:
            cluster.start(index)
        return cluster

    def check_table(self, cluster):
        """The same for people, a row a worker."""
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
        done = subprocess.run([LOCKSTEP, "check", "--connect", "--tf-config", config], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^lockstep \S+, cluster [0-9a-f]{12}$")
        self.assertEqual(lines[1].split(), ["rank", "task", "address", "round", "trip", "version", "cluster", "state"])
        for rank, address in enumerate(cluster["worker"]):
            self.assertRegex(lines[2 + rank], r"^ +%d  worker:%d +%s +\d+\.\d+ ms .* fine, \w+" % (rank, rank, address))

    def test_before_during_and_after(self):
        cluster = self.start(3)
        self.assertEqual([peer["state"] for peer in check(cluster.cluster)["peers"]], ["unreachable"] * 3)
        cluster.start(0)
        cluster.start(2)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "waiting for")
        found = check(cluster.cluster)
        self.assertEqual([peer["state"] for peer in found["peers"]], ["ok", "unreachable", "ok"])
        self.assertEqual(found["peers"][1]["why"], "connection refused")
        self.assertEqual(found["peers"][0]["phase"], "joining")
        cluster.start(1)
        wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
        found = check(cluster.cluster)
        self.assertTrue(found["fine"], found)
        self.check_table(cluster.cluster)
        for rank, peer in enumerate(found["peers"]):
            self.assertEqual((peer["says_it_is"], peer["phase"], peer["cluster"], peer["generation"]),
                             ("worker:%d" % rank, "member", found["cluster"], len(found["peers"])))
            self.assertGreater(peer["round_trip_ms"], 0)
        cluster.kill_all()
        self.assertFalse(check(cluster.cluster)["fine"])

    def test_what_else_listens(self):
        for answer, state, why in (
                (b"SSH-2.0-x\r\n", "foreign", "something else listens there"),
                (b"", "foreign", "closes the connection without an answer"),
                (b"lockstep=1\nversion=0.1.0\n", "foreign", "its answer was cut off"),
                (b"lockstep=1\n" + b"x" * (2 << 20), "foreign", "its answer has no end"),
                (b"\0" * 9999, "foreign", "something else listens there"),
                (None, "silent", "does not answer within 0.5 s")):
            with self.subTest(why=why):
                peer = check_one(Listener(answer).address, "--timeout", "0.5")
                self.assertEqual(peer["state"], state, peer)
                self.assertIn(why, peer["why"])
        self.assertIn("name not found", check_one("no-such-host.invalid:2222")["why"])

    def test_who_else_answers(self):
        cluster = self.start(2, 0)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "waiting for")
        own, other = cluster.cluster["worker"]
        answer = probe(cluster.ports[0])
        version = dict(line.split("=", 1) for line in answer.splitlines())["version"]
        peer = check_one(Listener(answer.replace("version=" + version, "version=0.0.1").encode()).address)
        self.assertEqual(peer["state"], "other_version")
        self.assertIn("it is Lockstep 0.0.1 with protocol", peer["why"])
        stranger = Listener(None)
        spec = {"worker": [stranger.address, own]}
        answer = answer.replace(own, stranger.address).replace(other, own).replace("task=worker:0", "task=worker:1")
        stranger.answer = answer.encode()
        peers = check(spec)["peers"]
        self.assertEqual(peers[0]["state"], "other_task", peers)
        self.assertIn("says that it is worker:1", peers[0]["why"])
        self.assertEqual(peers[1]["state"], "other_cluster")
        self.assertIn("cluster.worker[0] is '%s' here and '%s' there" % (stranger.address, own), peers[1]["why"])

    def test_training_does_not_notice(self):
        data = ["--limit", "1000", "--no-validation", "--verbose", "2", "--json"]
        kinds = (b"LSPROBE\n", b"LSPROBE\n", b"LSPROBX\n", b"LSPROB")
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(2, train_command(*data, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1000000"))
            cluster.start_all()
            wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
            for asked in range(10 * len(kinds)):
                probe(cluster.ports[asked % 2], kinds[asked % len(kinds)])
            cluster.kill(0, signal.SIGTERM)
            results = cluster.finish()
            expect_ends(self, results, 143)
            for _, _, stderr in results.values():  # what is no probe is refused, and that is told
                self.assertFalse([line for line in stderr.splitlines() if "warning" in line and "refused" not in line], stderr)
            expect_undisturbed(self, train_command(*data, "--devices", "2"), folder, STEPS)

    def test_top(self):
        cluster = self.start(3, 0, 1, 2)
        wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
        for address in cluster.cluster["worker"]:
            done = top("--json", "--interval", "0.3", address)
            self.assertEqual(done.returncode, 0, done.stderr)
            table = json.loads(done.stdout)
            self.assertEqual((table["workers"], table["generation"]), (3, 3))
            for rank in table["ranks"]:
                self.assertTrue(rank["known"])
                self.assertGreater(rank["steps"], 0)
                self.assertGreater(rank["bytes_per_second"], 0)
                self.assertGreater(rank["resident"], 1 << 20)
                self.assertAlmostEqual(rank["compute"] + rank["wait"] + rank["wire"], 1, places=4)
        cluster.kill(2, signal.SIGSTOP)
        time.sleep(1)
        done = top("--interval", "0.1", cluster.cluster["worker"][0])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\n   2 worker:2 .*does not answer within 2 s\n")
        self.assertIn("in one collective since", done.stdout)
        self.assertIn("1 did not answer: the others may be waiting for it\n", done.stdout)

    def test_top_counts_restarts(self):
        """A new process is told of those before it, also by one that is no older than the last loss."""
        cluster = self.start(2)
        cluster.environment["LOCKSTEP_REJOIN_TIMEOUT"] = "60"
        cluster.start_all()
        for victim, wanted in ((None, [0, 0]), (0, [1, 0]), (1, [1, 1]), (1, [1, 2]), (0, [2, 2])):
            if victim is not None:
                cluster.kill(victim)
                cluster.tasks[("worker", victim)].communicate()
                cluster.start(victim)
            deadline = time.monotonic() + 30
            while True:
                done = top("--json", "--interval", "0.1", cluster.cluster["worker"][0])
                found = [rank.get("restarts") for rank in json.loads(done.stdout)["ranks"]] if not done.returncode else None
                if found == wanted and all(rank["steps"] for rank in json.loads(done.stdout)["ranks"]):
                    break
                self.assertLess(time.monotonic(), deadline, (found, wanted, done.stderr))
        table = top("--interval", "0.1", cluster.cluster["worker"][1]).stdout.splitlines()
        self.assertEqual([line.split()[-1] for line in table[1:4]], ["restarts", "2", "2"], table)

    def test_top_of_what_is_no_worker(self):
        for address, status, said in (("127.0.0.1:9", 138, "no worker answers at '127.0.0.1:9': "),
                                      ("junk", 2, "'junk' is no address"), ('a"b:1', 2, "is no address"),
                                      (Listener(b"HTTP/1.1 400\r\n").address, 138, "its answer is not Lockstep's"),
                                      (Listener(b"lockstep=1\ntask=worker:0\nend=1\n").address, 1, "names no cluster"),
                                      (Listener(b'lockstep=1\ntask="\ncluster.worker[0]="\nend=1\n').address, 1,
                                       "names no cluster")):
            with self.subTest(said=said):
                done = top(address)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
