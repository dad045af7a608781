#!/usr/bin/env python3
"""Waits that expire, of those that no other test waits for (tests/house/deadlines.txt has the list): each ends when
`lockstep settings` says, and as it says."""
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from cluster import LIMIT, LOCKSTEP, PACE, Cluster, free_ports, train_command

SHORT = train_command("--json", "--verbose", "-1", "--limit", "500", "--no-validation", "--batch-size", "50", "--epochs", "3")
LATE = 8 * PACE  # seconds that a busy machine may add


class Waits(unittest.TestCase):
    def expect_end(self, cluster, begun, least, status):
        results = cluster.finish(timeout=least + 3 * LATE)
        taken = time.monotonic() - begun
        self.assertEqual({ended for ended, _, _ in results.values()}, {status}, results)
        self.assertGreater(taken, least - 0.1, results)
        self.assertLess(taken, least + LATE, results)
        return [said for _, _, said in results.values()]

    def test_own_name(self):
        """Its server takes the question, and never answers."""
        if os.geteuid():
            self.skipTest("a name server of its own needs root")
        folder = tempfile.mkdtemp(prefix="deadlines-test-")
        self.addCleanup(shutil.rmtree, folder)
        resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(resolver.close)
        resolver.bind(("127.9.9.9", 53))
        path = os.path.join(folder, "resolv.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write("nameserver 127.9.9.9\noptions timeout:30 attempts:1\n")
        own, other = free_ports(2)
        names = {"worker": ["slow.test:%d" % own, "127.0.0.1:%d" % other]}
        command = ["unshare", "--mount", "sh", "-ec", 'mount --bind "$0" "$(realpath /etc/resolv.conf)"; exec "$@"', path, *SHORT]
        cluster = Cluster(1, command, {"LOCKSTEP_JOIN_TIMEOUT": "1", "LOCKSTEP_LOG": "info"}, names)
        begun = time.monotonic()
        cluster.start(0)
        said, = self.expect_end(cluster, begun, 5, 138)
        self.assertIn("listening on port %d of all interfaces, not only on 'slow.test'" % own, said)

    def test_connect(self):
        """A full backlog: the kernel answers no further attempt, so there is none yet, and then none."""
        own, = free_ports(1)
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
            addresses = {"worker": ["127.0.0.1:%d" % own, "127.0.0.1:%d" % full.getsockname()[1]]}
            cluster = Cluster(1, SHORT, {"LOCKSTEP_JOIN_TIMEOUT": "7", "LOCKSTEP_REPORT_INTERVAL": "1"}, addresses)
            begun = time.monotonic()
            cluster.start(0)
            said, = self.expect_end(cluster, begun, 7, 138)
            for filler in fillers:
                filler.close()
        reports = [line for line in said.splitlines() if "waiting for" in line]
        self.assertRegex(reports[0], "no answer yet$")
        self.assertRegex(said.splitlines()[-1], r"\): no answer\.")

    def test_hello(self):
        """The peer accepts and says nothing: it is dialled anew."""
        own, = free_ports(1)
        with socket.create_server(("127.0.0.1", 0)) as mute:
            mute.settimeout(30)
            addresses = {"worker": ["127.0.0.1:%d" % own, "127.0.0.1:%d" % mute.getsockname()[1]]}
            cluster = Cluster(1, SHORT, {"LOCKSTEP_JOIN_TIMEOUT": "8"}, addresses)
            begun = time.monotonic()
            cluster.start(0)
            first, _ = mute.accept()
            came = time.monotonic()
            second, _ = mute.accept()
            self.assertGreater(time.monotonic() - came, 4.5)
            said, = self.expect_end(cluster, begun, 8, 138)
            first.close()
            second.close()
        self.assertIn("no answer (connected, but it does not reply)", said)

    def test_difference(self):
        """Two differ, and the third, who should hear of it, never comes."""
        cluster = Cluster(3, SHORT, {"LOCKSTEP_JOIN_TIMEOUT": "60", "LOCKSTEP_TRANSPORT": "shm"})
        begun = time.monotonic()
        cluster.start(0)
        cluster.environment["LOCKSTEP_TRANSPORT"] = "tcp"
        cluster.start(1)
        for said in self.expect_end(cluster, begun, 5, 2):
            self.assertIn("LOCKSTEP_TRANSPORT", said.splitlines()[-1])

    def test_idle_connection(self):
        """With TLS too, who begins no handshake is cut off."""
        folder = tempfile.mkdtemp(prefix="deadlines-test-")
        self.addCleanup(shutil.rmtree, folder)
        certs = os.path.join(folder, "certs")
        subprocess.run([LOCKSTEP, "certs", certs, "--tasks", "worker:2"], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)
        settings = {"LOCKSTEP_TLS_" + name: os.path.join(certs, file) for name, file in
                    (("CERTIFICATE", "worker-0.pem"), ("KEY", "worker-0.key"), ("CA", "ca.pem"))}
        cluster = Cluster(2, SHORT, {**settings, "LOCKSTEP_JOIN_TIMEOUT": "%d" % (14 + 2 * LATE)})
        cluster.start(0)
        deadline = time.monotonic() + LATE
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", cluster.ports[0]))
                break
            except OSError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
        begun = time.monotonic()
        connection.settimeout(10 + LATE)
        try:
            while connection.recv(4096):
                pass
        except ConnectionResetError:
            pass
        self.assertGreater(time.monotonic() - begun, 9)
        connection.close()
        cluster.kill(0)
        cluster.finish()

    def test_a_program_that_does_not_start(self):
        """The launcher says so, and the worker runs when its program has come."""
        environment = {**os.environ, "LD_PRELOAD": os.environ["SLOW_EXEC_MODULE"], "SLOW_EXEC": "6"}
        begun = time.monotonic()
        done = subprocess.run([LOCKSTEP, "run", "-np", "1", "--no-prefix", "--", "sh", "-c", "echo here"], capture_output=True, text=True,
                              timeout=LIMIT, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, "here\n"), done.stderr)
        self.assertIn("worker:0 has not become 'sh' after 5 s: its file system does not answer", done.stderr)
        self.assertLess(time.monotonic() - begun, 6 + LATE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
