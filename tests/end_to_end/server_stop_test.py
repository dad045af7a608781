#!/usr/bin/env python3
"""SIGTERM to a job with parameter servers, as before all its machines are taken away: a server serves until its workers have
saved and left, and ends with 143 as they do. The training goes on from there to the bits of an undisturbed one."""
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import ENDLESS, HIDDEN, LIMIT, LOCKSTEP, Cluster, drawn, free_ports, half_of, last_json, wait_for_line

SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))
TRAIN = [LOCKSTEP, "train", *HIDDEN, "--dataset", "digits", "--limit", "500", "--batch-size", "128", "--verbose", "2", "--json"]
MLP = [*TRAIN, "--model", "mlp", "--no-validation", *ENDLESS]
STEPS = 4  # of an epoch
STORE = ["--strategy", "parameter-server"]
WORDS = [LOCKSTEP, "train", "--model", "embedding", "--embedding", "20000x8", "--limit", "500", "--batch-size", "32", "--verbose", "2",
         "--json", *ENDLESS, *STORE, "--sparse", "always"]
SMALL = {"LOCKSTEP_FIRST_BUCKET": "16K", "LOCKSTEP_BUCKET": "64K"}  # the pull of a step goes on beside the next one
FORMS = {"sum-only": (MLP, {"LOCKSTEP_ALGORITHM": "assist"}), "delayed": ([*MLP, *STORE, "--consistency", "delayed"], {}),
         "asynchronous": ([*MLP, *STORE, "--consistency", "async"], {}), "sparse": (WORDS, {}), "hybrid": ([*WORDS, "--hybrid"], {})}
LEFT = r"CANCELLED: .*stopped after step (\d+), as (rank \d|\d workers) asked; its checkpoint is in"


@half_of
class ServerStop(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-server-stop-")
        self.addCleanup(shutil.rmtree, self.folder)

    def job(self, command, **environment):
        """Two workers and two servers, not started."""
        addresses = ["127.0.0.1:%d" % port for port in free_ports(4)]
        cluster = Cluster(1, [*command, "--checkpoint", self.folder, "--checkpoint-steps", "1000000"],
                          {"LOCKSTEP_REJOIN_TIMEOUT": "600", "LOCKSTEP_PS_WAIT": "20", **environment},
                          {"worker": addresses[:2], "ps": addresses[2:]})
        self.addCleanup(cluster.kill_all)
        return cluster

    def start(self, cluster, kinds=("ps", "worker")):
        """Half of the servers run lockstep serve."""
        for kind in kinds:
            for index in range(len(cluster.cluster[kind])):
                cluster.start(index, kind, [LOCKSTEP, "serve"] if kind == "ps" and index % 2 else None)
        return cluster

    def ask(self, cluster, number=signal.SIGTERM):
        for task in random.sample(list(cluster.tasks.values()), len(cluster.tasks)):
            task.send_signal(number)

    def expect(self, results, statuses):
        self.assertEqual({key: result[0] for key, result in results.items()}, statuses,
                         "\n".join(result[2] for result in results.values()))

    def all_with(self, cluster, status):
        return {key: status for key in cluster.tasks}

    def finish(self, command, **environment):
        cluster = self.start(self.job(command, **environment))
        results = cluster.finish(timeout=2 * LIMIT)
        self.expect(results, self.all_with(cluster, 0))
        return last_json(results[("worker", 0)][1])["weights_sha256"], results[("worker", 0)][2]

    def test_all_tasks_are_asked(self):
        """At a random moment; the servers up to 30 ms before the workers or after them."""
        print("# LOCKSTEP_TEST_SEED=%d" % SEED)
        draw = random.Random(SEED)
        for rule, environment in (("adam", {}), ("momentum", SMALL)):
            command = [*MLP, *STORE, *(["--optimizer", "adam"] if rule == "adam" else ["--momentum", "0.9"])]
            cluster = self.start(self.job(command, **environment))
            for _ in range(2):
                wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch ")
            time.sleep(draw.uniform(0, 0.2))
            for kind in draw.sample(["ps", "worker"], 2):
                for index in range(2):
                    cluster.kill(index, signal.SIGTERM, kind)
                time.sleep(draw.uniform(0, 0.03))
            results = cluster.finish()
            self.expect(results, self.all_with(cluster, 143))
            steps = {re.search(LEFT, said).group(1) for _, _, said in results.values()}  # the servers say it too
            self.assertEqual(len(steps), 1, results)
            step = int(steps.pop())
            self.assertEqual(max(os.listdir(self.folder)), "checkpoint-%012d.safetensors" % step)
            command += ["--epochs", str(step // STEPS + 2)]
            found, said = self.finish(command, **environment)
            self.assertIn("training goes on after step %d " % step, said)
            self.assertEqual(os.listdir(self.folder), [])
            wanted, _ = self.finish(command, **environment)
            self.assertEqual(found, wanted)

    def test_servers_of_every_kind(self):
        for name in drawn(FORMS, "forms", 3):
            command, environment = FORMS[name]
            with self.subTest(name):
                cluster = self.start(self.job([*command, "--optimizer", "adam"], **environment))
                for _ in range(2):
                    wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch ")
                self.ask(cluster)
                results = cluster.finish()
                self.expect(results, self.all_with(cluster, 143))
                step = int(re.search(LEFT, results[("worker", 0)][2]).group(1))
                self.assertEqual(max(os.listdir(self.folder)), "checkpoint-%012d.safetensors" % step)
                shutil.rmtree(self.folder)
                os.mkdir(self.folder)

    def test_the_launcher_is_asked(self):
        command = [*MLP, *STORE, "--optimizer", "adam", "--checkpoint", self.folder, "--checkpoint-steps", "1000000"]
        launcher = subprocess.Popen([LOCKSTEP, "run", "-np", "2", "--ps", "2", "--no-prefix", "--", *command],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(launcher.kill)
        for _ in range(2):
            wait_for_line(launcher.stdout, "Epoch ")
        launcher.send_signal(signal.SIGTERM)
        _, said = launcher.communicate(timeout=LIMIT)
        self.assertEqual(launcher.returncode, 143, said)
        self.assertEqual(os.listdir(self.folder), ["checkpoint-%012d.safetensors" % int(re.search(LEFT, said).group(1))])
        self.assertNotIn("exit status", said)

    def test_workers_that_stop_take_their_servers_along(self):
        """One worker is asked alone. A server that ended with 0 would not be started again with the others."""
        cluster = self.start(self.job([*MLP, *STORE, "--optimizer", "adam"]))
        wait_for_line(cluster.tasks[("worker", 0)].stdout, r"Epoch \d+/")
        cluster.kill(1, signal.SIGTERM)
        results = cluster.finish()
        self.expect(results, self.all_with(cluster, 143))
        self.assertRegex(results[("ps", 0)][2], LEFT)

    def test_who_waits_for_workers(self):
        """None has come: at once. The first ones are lost: when none has come back for 2 s."""
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            cluster = self.start(self.job(MLP, LOCKSTEP_REPORT_INTERVAL="0.2"), ["ps"])
            for task in cluster.tasks.values():
                wait_for_line(task.stderr, "waiting for")
            self.ask(cluster, number)
            self.expect(cluster.finish(), self.all_with(cluster, status))
        cluster = self.start(self.job([*MLP, *STORE], LOCKSTEP_REPORT_INTERVAL="0.2"))
        wait_for_line(cluster.tasks[("worker", 0)].stdout, r"Epoch \d+/")
        for index in range(2):
            cluster.kill(index)
        for index in range(2):
            wait_for_line(cluster.tasks[("ps", index)].stderr, "waiting for .*worker:0")
        self.ask(cluster)
        results = cluster.finish()
        self.expect(results, {("ps", 0): 143, ("ps", 1): 143, ("worker", 0): -9, ("worker", 1): -9})

    def test_in_a_recovery(self):
        """A worker is lost, and the others wait for it."""
        cluster = self.start(self.job([*MLP, *STORE, "--optimizer", "adam"], LOCKSTEP_REPORT_INTERVAL="0.2"))
        wait_for_line(cluster.tasks[("worker", 0)].stdout, r"Epoch \d+/")
        cluster.kill(1)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "waiting for .*worker:1")
        for index in range(2):
            wait_for_line(cluster.tasks[("ps", index)].stderr, "waits for the workers")
        self.ask(cluster)
        results = cluster.finish()
        self.expect(results, {**self.all_with(cluster, 143), ("worker", 1): -9})

    def test_workers_whose_servers_are_gone(self):
        """What servers alone have cannot be saved: that is said in one line, and the stop stays a stop."""
        for name, (command, environment) in {"moments": ([*MLP, *STORE], SMALL), "tables": FORMS["hybrid"]}.items():
            with self.subTest(name):
                cluster = self.job([*command, "--optimizer", "adam", "--epochs", "1", "--limit", "1000000"], **environment)
                self.start(cluster)
                cluster.wait_for_step()  # before the first one there are none
                for kind, number in (("ps", signal.SIGKILL), ("worker", signal.SIGTERM)):
                    for index in range(2):
                        cluster.kill(index, number, kind)
                results = cluster.finish()
                self.expect(results, {("worker", 0): 143, ("worker", 1): 143, ("ps", 0): -9, ("ps", 1): -9})
                found = re.findall("its checkpoint could not be saved: FAILED_PRECONDITION: the (moments|tables) after step",
                                   results[("worker", 0)][2])
                self.assertEqual(found, [name])

    def test_a_server_alone_is_asked(self):
        """Its workers train on: it leaves them when its time is over, and they do without it. The second one is its end."""
        cluster = self.start(self.job(MLP, LOCKSTEP_ALGORITHM="assist", LOCKSTEP_STOP_GRACE="1"))
        server = cluster.tasks[("ps", 1)]
        wait_for_line(cluster.tasks[("worker", 0)].stdout, r"Epoch \d+/")
        cluster.kill(1, signal.SIGTERM, "ps")
        _, said = server.communicate(timeout=LIMIT)
        self.assertEqual(server.returncode, 143, said)
        self.assertIn("ps:1 was asked to stop, and its workers have not left within the 1 s of LOCKSTEP_STOP_GRACE", said)
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "ps:1 was asked to stop, and its workers")  # in its call, or later
        wait_for_line(cluster.tasks[("worker", 0)].stderr, "1 parameter server helps")
        del cluster.tasks[("ps", 1)]
        self.ask(cluster)
        self.expect(cluster.finish(), self.all_with(cluster, 143))
        cluster = self.start(self.job(MLP, LOCKSTEP_ALGORITHM="assist", LOCKSTEP_STOP_GRACE="600"))
        server = cluster.tasks[("ps", 0)]
        wait_for_line(cluster.tasks[("worker", 0)].stdout, r"Epoch \d+/")
        server.send_signal(signal.SIGTERM)
        wait_for_line(server.stderr, "asked to stop: this parameter server serves until its workers have left, 600 s at most")
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(timeout=LIMIT), -signal.SIGTERM)

    def test_a_server_leaves_in_any_part_of_a_step(self):
        """To its workers it is lost, also where it was in a call with them. Its part is on the other one, too."""
        for form in [[], ["--consistency", "delayed"]] * (40 if os.environ.get("LOCKSTEP_TEST_FULL") else 6):
            cluster = self.start(self.job([*MLP, *STORE, "--ps-replicas", "2", *form], LOCKSTEP_STOP_GRACE="0.05", **SMALL))
            cluster.wait_for_step(2)
            cluster.kill(1, signal.SIGTERM, "ps")
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "1 parameter server keeps the variables")
            self.assertEqual(cluster.tasks.pop(("ps", 1)).wait(timeout=LIMIT), 143)
            cluster.kill_all()


if __name__ == "__main__":
    unittest.main(verbosity=2)
