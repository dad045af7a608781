#!/usr/bin/env python3
"""Two hosts of two workers each, as process namespaces: who is in another one cannot map one's memory. The weights are
those of one host, and killed workers leave nothing behind."""
import json
import os
import re
import shlex
import signal
import subprocess
import time
import unittest

from cluster import LIMIT, Cluster, last_json, run_local, shared_files, train_command

SMALL = ("--limit", "2000", "--epochs", "2", "--no-validation", "--batch-size", "70")


def namespaces():
    """The command that enters a new one, or None where that is not allowed."""
    for user in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return None


ENTER = namespaces()


class Host:
    """Workers of a cluster in one namespace of processes."""

    def __init__(self, cluster, indices):
        script = []
        for index in indices:
            config = json.dumps({"cluster": cluster.cluster, "task": {"type": "worker", "index": index}})
            script.append("TF_CONFIG=%s %s & pids=\"$pids $!\"" % (shlex.quote(config), shlex.join(cluster.command)))
        script.append("failed=0; for pid in $pids; do wait $pid || failed=1; done; exit $failed")
        self.process = subprocess.Popen([*ENTER, "sh", "-c", "\n".join(script)], env=cluster.environment, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, timeout=LIMIT):
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def descendants(pid):
    """Seen from outside of the namespaces."""
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task)) as children:
            for child in map(int, children.read().split()):
                found += [child, *descendants(child)]
    return found


def segments(pids):
    """The shared segments that processes map or hold open, as inodes."""
    found = set()
    for pid in pids:
        try:
            with open("/proc/%d/maps" % pid) as maps:
                found.update(line.split()[4] for line in maps if "memfd:lockstep" in line)
            for name in os.listdir("/proc/%d/fd" % pid):
                if "memfd:lockstep" in os.readlink("/proc/%d/fd/%s" % (pid, name)):
                    found.add(str(os.stat("/proc/%d/fd/%s" % (pid, name)).st_ino))
        except OSError:
            continue  # it has ended
    return found


@unittest.skipUnless(ENTER, "namespaces of processes are not allowed here")
class Hosts(unittest.TestCase):
    def start(self, layout, *options):
        cluster = Cluster(4, train_command("--json", *options))
        hosts = [Host(cluster, indices) for indices in layout]
        for host in hosts:
            self.addCleanup(host.end)
        return hosts

    def test_the_bits_of_one_host(self):
        expected = run_local(4, 1, *SMALL)["weights_sha256"]
        for layout in (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0,), (1, 2, 3))):
            hosts = self.start(layout, *SMALL)
            results = [host.finish() for host in hosts]
            self.assertEqual([status for status, _, _ in results], [0, 0], results)
            self.assertEqual(last_json(results[0][1])["weights_sha256"], expected)
            sizes = "2" if layout[0][1:] else "1 to 3"
            self.assertIn("shared memory in 2 hosts of %s and tcp between them" % sizes, results[0][2])

    def test_killed_workers_leave_nothing(self):
        hosts = self.start(((0, 1), (2, 3)), "--epochs", "100000")
        deadline = time.monotonic() + 30
        workers, mapped = [], set()
        while len(mapped) < 4 and time.monotonic() < deadline:  # a board and gradients of each host
            time.sleep(0.1)
            workers = [pid for host in hosts for pid in descendants(host.process.pid)]
            mapped = segments(workers)
        self.assertGreaterEqual(len(mapped), 4)
        self.assertEqual(shared_files(), [])
        for pid in workers:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # with its namespace
        for host in hosts:
            host.end()
        everybody = [int(name) for name in os.listdir("/proc") if re.fullmatch("[0-9]+", name)]
        self.assertEqual(segments(everybody) & mapped, set())
        self.assertEqual(shared_files(), [])


if __name__ == "__main__":
    unittest.main()
