#!/usr/bin/env python3
"""Parameter servers of mirrored training: they change no bit, come and go, and end with the workers."""
import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import (ENDLESS, HIDDEN, LIMIT, LOCKSTEP, PACE, Cluster, digest, expect_ends, expect_undisturbed,
                     free_ports, tls_settings, wait_for_line)

TRAIN = [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *HIDDEN, "--limit", "960", "--epochs", "2", "--json"]
QUIET = [*TRAIN, "--no-validation", "--verbose", "-1"]
STEPS = 8  # of an epoch
ASSIST = {"LOCKSTEP_ALGORITHM": "assist", "LOCKSTEP_PS_WAIT": "20"}


def cluster_of(servers, command=TRAIN, **environment):
    ports = free_ports(2 + servers)
    addresses = ["127.0.0.1:%d" % port for port in ports]
    tasks = {"worker": addresses[:2], **({"ps": addresses[2:]} if servers else {})}
    return Cluster(1, command, {**ASSIST, **environment}, tasks)


def plain(command):
    """The digest without servers."""
    cluster = cluster_of(0, command)
    cluster.start(0)
    cluster.start(1)
    return digest(cluster.finish()[("worker", 0)][1])


class Server(unittest.TestCase):
    def test_servers_change_no_bit_and_end_with_the_chief(self):
        wanted = plain(TRAIN)
        for servers, environment in ((1, {}), (3, {"LOCKSTEP_TRANSPORT": "tcp"})):
            cluster = cluster_of(servers, **environment)
            cluster.start(0)
            for index in range(servers):
                cluster.start(index, "ps", [LOCKSTEP, "serve"] if index else None)
            cluster.start(1)
            chief = cluster.tasks[("worker", 0)]
            out, _ = chief.communicate(timeout=LIMIT)
            ended = time.monotonic()
            for index in range(servers):
                cluster.tasks[("ps", index)].wait(timeout=LIMIT)
            self.assertLess(time.monotonic() - ended, PACE)
            self.assertEqual(digest(out), wanted)
            del cluster.tasks[("worker", 0)]
            results = cluster.finish()
            expect_ends(self, results)
            self.assertRegex(results[("ps", 0)][2], r"serves 2 workers with %d parameter server" % servers)

    def endless(self, folder, **environment):
        """Its first checkpoint is written when it is stopped."""
        return cluster_of(1, [*QUIET, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1000000"], **environment)

    def stop(self, cluster, folder):
        cluster.kill(0, signal.SIGTERM)
        expect_ends(self, cluster.finish(), 143)
        expect_undisturbed(self, [*QUIET, "--devices", "2"], folder, STEPS)

    def test_a_server_that_comes_late_is_killed_and_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            cluster = self.endless(folder, LOCKSTEP_PS_WAIT="0.2", LOCKSTEP_HEARTBEAT_LIMIT="60")
            cluster.start(0)
            other = cluster.start(1)
            chief = cluster.tasks[("worker", 0)]
            wait_for_line(chief.stderr, "2 replicas in sync")
            server = cluster.start(0, "ps")
            wait_for_line(server.stderr, "serves 2 workers")
            wait_for_line(chief.stderr, "1 parameter server helps")
            server.kill()  # while the group forms, or later
            server.communicate()
            wait_for_line(chief.stderr, "no parameter server helps")
            cluster.start(0, "ps")
            other.send_signal(signal.SIGSTOP)  # no steps for most of the 10 s after which somebody may come in again
            time.sleep(9.5)
            other.send_signal(signal.SIGCONT)
            wait_for_line(chief.stderr, "1 parameter server helps")
            self.stop(cluster, folder)

    def test_servers_have_the_workers_token_and_tls_and_are_seen(self):
        wanted = plain(QUIET)
        with tempfile.TemporaryDirectory() as folder:
            token = os.path.join(folder, "token")
            with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(16))
            subprocess.run([LOCKSTEP, "certs", folder + "/tls", "--tasks", "worker:2,ps:1"], check=True, capture_output=True)
            for tls in (False, True):
                cluster = self.endless(folder) if tls else cluster_of(1, QUIET, LOCKSTEP_TOKEN_FILE=token)
                shared = cluster.environment
                for job, index in (("ps", 0), ("worker", 0), ("worker", 1)):
                    own = tls_settings(folder + "/tls", "%s-%d" % (job, index)) if tls else {}
                    cluster.environment = {**shared, **own}
                    cluster.start(index, job)
                wait_for_line(cluster.tasks[("ps", 0)].stderr, "serves 2 workers")
                if tls:
                    self.look(cluster, tls_settings(folder + "/tls", "worker-0"))
                    self.stop(cluster, folder)
                else:
                    results = cluster.finish()
                    expect_ends(self, results)
                    self.assertEqual(digest(results[("worker", 0)][1]), wanted)

    def look(self, cluster, environment):
        """The server is asked as the workers are, and names the same cluster."""
        environment = {**os.environ, **environment}
        ask = lambda *words: subprocess.run([LOCKSTEP, *words], capture_output=True, text=True, env=environment, timeout=LIMIT)
        added = 0
        while not added:  # it is asked before the first step, too
            done = ask("top", "--json", "--interval", "0.3", cluster.cluster["ps"][0])
            self.assertEqual(done.returncode, 0, done.stderr)
            top = json.loads(done.stdout)
            self.assertEqual([len(top["ranks"]), [server["task"] for server in top["servers"]]], [2, ["ps:0"]])
            server = top["servers"][0]
            added = server["known"] and server["phase"] == "member" and server["bytes_per_second"]
        self.assertGreater(top["ranks"][0]["compute"], 0.01, top)
        self.assertLess(min(rank["compute"] for rank in top["ranks"]), 0.99, top)  # what servers add is time in collectives
        environment["TF_CONFIG"] = json.dumps({"cluster": cluster.cluster, "task": {"type": "worker", "index": 0}})
        peers = json.loads(ask("check", "--connect", "--json").stdout)["peers"]
        self.assertEqual([(peer["task"], peer["state"]) for peer in peers],
                         [("worker:0", "ok"), ("worker:1", "ok"), ("ps:0", "ok")])

    def test_a_required_server_that_is_missing_is_named(self):
        cluster = cluster_of(1, LOCKSTEP_PS="required", LOCKSTEP_JOIN_TIMEOUT="2")
        cluster.start(0)
        cluster.start(1)
        results = cluster.finish()
        self.assertEqual(results[("worker", 0)][0], 138)
        self.assertRegex(results[("worker", 0)][2], r"waited for .*of 3 tasks .*ps:0 \(127.0.0.1:\d+\)")

    def test_workers_say_whom_they_wait_for_and_go_on_without(self):
        cluster = cluster_of(1, LOCKSTEP_PS_WAIT="1", LOCKSTEP_REPORT_INTERVAL="0.3")
        cluster.start(0)
        cluster.start(1)
        results = cluster.finish()
        expect_ends(self, results)
        self.assertRegex(results[("worker", 0)][2], r"waiting for .*ps:0.*\(LOCKSTEP_PS_WAIT\)")

    def test_a_server_that_wakes_when_all_have_left_does_not_wait_for_them(self):
        """It was part of the group, and cannot know whether they have finished: status 138."""
        command = [*TRAIN[:-2], "40", "--no-validation", "--verbose", "-1"]
        cluster = cluster_of(1, command, LOCKSTEP_HEARTBEAT_LIMIT="%g" % PACE, LOCKSTEP_REJOIN_TIMEOUT="600")
        cluster.start(0)
        cluster.start(1)
        server = cluster.start(0, "ps")
        self.addCleanup(server.kill)
        wait_for_line(server.stderr, "serves 2 workers")
        server.send_signal(signal.SIGSTOP)  # while the group begins, or later
        for index in range(2):
            self.assertEqual(cluster.tasks[("worker", index)].wait(timeout=2 * LIMIT), 0)
        server.send_signal(signal.SIGCONT)
        _, said = server.communicate(timeout=LIMIT)
        self.assertEqual(server.returncode, 138, said)
        self.assertRegex(said, r"the workers have left while this server was frozen or cut off, for nobody listens there: .*worker:0")
        cluster.finish()

    def test_who_serves(self):
        cluster = cluster_of(1, LOCKSTEP_PS="off")
        cluster.start(0, "ps", [LOCKSTEP, "serve"])
        cluster.start(0, "worker", [LOCKSTEP, "serve"])
        results = cluster.finish()
        self.assertEqual(results[("ps", 0)][0], 0)
        self.assertIn("LOCKSTEP_PS is off", results[("ps", 0)][2])
        self.assertEqual(results[("worker", 0)][0], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
