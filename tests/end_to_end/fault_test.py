#!/usr/bin/env python3
"""What goes wrong: lost, frozen, missing and differing workers. Everybody ends in time, with the same cause, and nothing is
left behind."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import LIMIT, LOCKSTEP, PACE, Cluster, children_of, drawn, run_local, shared_files, train_command, wait_for_line, workers_of

LONG = train_command("--epochs", "100000", "--limit", "2000", "--no-validation", "--verbose", "2")


def leftovers(folder):
    """Shared memory that bears our name, and files in a cluster's own folder for temporary ones."""
    return {*shared_files(), *os.listdir(folder)}


def listening(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Faults(unittest.TestCase):
    def lose(self, victim, number=signal.SIGKILL, environment=None):
        """Trains on three workers, hurts one, and returns the others' results and how long they took. One that was
        stopped goes on when the others have ended; its result comes last."""
        folder = tempfile.TemporaryDirectory(prefix="lockstep-fault-")
        self.addCleanup(folder.cleanup)
        before = leftovers(folder.name)
        cluster = Cluster(3, LONG, {**(environment or {}), "TMPDIR": folder.name})
        cluster.start_all()
        wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 3/")
        cluster.kill(victim, number)
        hurt = time.monotonic()
        others = [cluster.tasks[("worker", index)] for index in range(3) if index != victim]
        for task in others:
            task.wait(timeout=LIMIT)
        took = time.monotonic() - hurt
        if number == signal.SIGSTOP:
            cluster.kill(victim, signal.SIGCONT)
        results = cluster.finish()
        self.assertEqual(leftovers(folder.name) - before, set())
        self.assertFalse([port for port in cluster.ports if listening(port)])
        woken = [victim] if number == signal.SIGSTOP else []
        return [results[("worker", index)] for index in [*{0, 1, 2} - {victim}, *woken]], took

    def test_kill_any_worker(self):
        for victim, transport in drawn(((0, "auto"), (1, "auto"), (2, "auto"), (0, "tcp"), (1, "tcp")), "kill", 3):
            with self.subTest(victim=victim, transport=transport):
                results, took = self.lose(victim, environment={"LOCKSTEP_TRANSPORT": transport,
                                                               "LOCKSTEP_HEARTBEAT_LIMIT": "60"})
                self.assertLess(took, 15 * PACE)  # by the closed connection, not by silence; 0.1 where nothing else runs
                for status, _, stderr in results:
                    self.assertEqual(status, 138, stderr)
                    self.assertRegex(stderr.strip().splitlines()[-1], "worker:%d" % victim)
                    self.assertIn("lost", stderr)

    def test_a_frozen_worker_is_named_by_all(self):
        """By itself too, when it wakes."""
        for victim, transport in ((0, "auto"), (1, "tcp"), (2, "tcp")):
            with self.subTest(victim=victim, transport=transport):
                results, took = self.lose(victim, signal.SIGSTOP, {"LOCKSTEP_HEARTBEAT_LIMIT": "%g" % PACE,
                                                                   "LOCKSTEP_TRANSPORT": transport})
                self.assertLess(took, 15 * PACE)  # 2 where nothing else runs
                self.assertEqual([status for status, _, _ in results], [138] * 3, results)
                lasts = [stderr.strip().splitlines()[-1] for _, _, stderr in results]
                for last in lasts[:2]:
                    self.assertRegex(last, r"worker:%d \(rank %d, .*\) was lost: silent for .*frozen" % (victim, victim))
                self.assertRegex(lasts[2], r"worker:%d \(rank %d, .*\) was itself stopped for " % (victim, victim))

    def test_a_frozen_worker_runs_into_the_deadline(self):
        """Where liveness would be later."""
        results, took = self.lose(1, signal.SIGSTOP, {"LOCKSTEP_COLLECTIVE_TIMEOUT": "3", "LOCKSTEP_REPORT_INTERVAL": "1",
                                                      "LOCKSTEP_HEARTBEAT_LIMIT": "60"})
        self.assertLess(took, 15 * PACE)
        for status, _, stderr in results[:2]:
            self.assertEqual(status, 138, stderr)
            self.assertIn("rank 1", stderr.strip().splitlines()[-1])

    def test_busy_processors_are_no_loss(self):
        """16 workers beside so many processes that only compute."""
        busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
        try:
            workers = 16
            done = run_local(workers, 1, "--limit", "2000", "--no-validation", "--epochs", "30")
            self.assertEqual(done["num_workers"], workers)
        finally:
            for process in busy:
                process.kill()
                process.wait()

    def test_a_missing_worker_is_named(self):
        cluster = Cluster(3, LONG, {"LOCKSTEP_JOIN_TIMEOUT": "4", "LOCKSTEP_REPORT_INTERVAL": "1"})
        cluster.start(0)
        cluster.start(2)
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 138, stderr)
            lines = stderr.strip().splitlines()
            self.assertTrue([line for line in lines[:-1] if "worker:1" in line and "refused" in line], stderr)
            self.assertIn("worker:1", lines[-1])
            self.assertIn("LOCKSTEP_JOIN_TIMEOUT", lines[-1])

    def test_a_name_that_is_not_found(self):
        cluster = Cluster(1, LONG, {"LOCKSTEP_JOIN_TIMEOUT": "3", "LOCKSTEP_REPORT_INTERVAL": "1"})
        cluster.cluster["worker"].append("no-such-host.invalid:2222")
        cluster.start(0)
        status, _, stderr = cluster.finish()[("worker", 0)]
        self.assertEqual(status, 138)
        self.assertRegex(stderr, "no-such-host.invalid.*(name not found)")

    def test_another_cluster(self):
        cluster = Cluster(2, LONG)
        other = {"worker": cluster.cluster["worker"] + ["127.0.0.1:9"]}
        cluster.start(0)
        cluster.start(1, cluster=other)
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 2, stderr)
            self.assertRegex(stderr.strip().splitlines()[-1], "cluster.worker differs.*2 tasks.*3 tasks")

    def expect_one_error(self, *options):
        """That of two workers, one with other options; returns it."""
        cluster = Cluster(2, LONG)
        cluster.start(0)
        cluster.start(1, command=[*LONG, *options])
        lasts = set()
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 2, stderr)
            lasts.add(stderr.strip().splitlines()[-1])
        self.assertEqual(len(lasts), 1, lasts)
        return lasts.pop()

    def test_another_command_line(self):
        self.assertIn("learning_rate=0.5", self.expect_one_error("--learning-rate", "0.5"))

    def test_another_compression(self):
        self.assertIn("compression differs: 'none' on worker:0 (rank 0), 'bf16' on worker:1 (rank 1)",
                      self.expect_one_error("--compression", "bf16"))

    def test_enums_and_layers_by_name(self):
        self.assertIn("loss differs: 'sparse_categorical_crossentropy' on worker:0 (rank 0), 'mean_squared_error' on",
                      self.expect_one_error("--loss", "mean_squared_error"))
        self.assertIn("data shuffle differs: 'each-epoch' on worker:0 (rank 0), 'never' on", self.expect_one_error("--shuffle", "never"))
        self.assertRegex(self.expect_one_error("--hidden", "32,60"),
                         r"model differs: 'dense_1 dense\(relu\) -> \(16\)' on worker:0 \(rank 0\), 'dense_1 dense\(relu\) -> \(60\)' on")

    def test_another_transport(self):
        cluster = Cluster(3, LONG, {"LOCKSTEP_TRANSPORT": "tcp"})
        cluster.start(0)
        cluster.start(1, command=[*LONG, "--transport", "shm"])
        cluster.start(2)
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 2, stderr)
            last = stderr.strip().splitlines()[-1]
            self.assertIn("LOCKSTEP_TRANSPORT differs: ", last)
            self.assertIn("'tcp' on worker:", last)
            self.assertIn("'shm' on worker:1 (rank 1)", last)

    def test_a_port_in_use(self):
        cluster = Cluster(1, LONG)
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", cluster.ports[0]))
            holder.listen()
            cluster.start(0)
            status, _, stderr = cluster.finish()[("worker", 0)]
        self.assertNotEqual(status, 0)
        self.assertIn(str(cluster.ports[0]), stderr)
        self.assertIn("in use", stderr)

    def test_the_launcher_names_the_first_to_fail(self):
        launcher = subprocess.Popen([LOCKSTEP, "run", "-np", "3", "--", *LONG], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        wait_for_line(launcher.stdout, "Epoch 3/")
        workers = workers_of(launcher.pid)
        self.assertEqual(sorted(workers), [0, 1, 2])
        children = [*children_of(launcher.pid), *workers.values()]
        os.kill(workers[1], signal.SIGKILL)
        _, stderr = launcher.communicate(timeout=LIMIT)
        self.assertEqual(launcher.returncode, 137)
        self.assertRegex(stderr, "worker:1")
        self.assertFalse([child for child in children if os.path.exists("/proc/%d" % child)])
        launcher.stdout.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
