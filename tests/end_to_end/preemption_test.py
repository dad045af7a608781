#!/usr/bin/env python3
"""SIGTERM to a training, as before a machine is taken away, or SIGINT: all workers stop after one step, its checkpoint is
there, and the next start ends with the bits of an undisturbed training. So it is in every wait for others, where the last
committed step is saved. The second time it is the end."""
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import ENDLESS, LIMIT, LOCKSTEP, PACE, Cluster, children_of, half_of, last_json, train_command, wait_for_line, workers_of

ROUNDS = 2
WORKERS = 3
LINE = r"CANCELLED: .*stopped after step (\d+), as (rank \d+|\d workers) asked; (.*)$"
NUMBERS = ("steps", "loss", "accuracy", "val_loss", "val_accuracy", "weights_sha256")
# endless unless a test says how many epochs; momentum and moments, a short last step in each epoch
OPTIONS = ("--json", "--verbose", "2", "--optimizer", "adam", "--batch-size", "72", "--limit", "1000", *ENDLESS)
STEPS = ("--no-validation",)
EVALUATIONS = ("--limit", "80")  # two steps, then 10000 examples
STEPS_OF_EPOCH = {STEPS: 14, EVALUATIONS: 2}


def numbers(text):
    return [last_json(text)[name] for name in NUMBERS]


def undisturbed(*options):
    done = subprocess.run(train_command(*OPTIONS, *options, "--devices", str(WORKERS)), capture_output=True, text=True,
                          timeout=2 * LIMIT)
    assert done.returncode == 0, done.stderr
    return numbers(done.stdout)


@half_of
class Preemption(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-preemption-")
        self.addCleanup(shutil.rmtree, self.folder)

    def launch(self, *options):
        command = [LOCKSTEP, "run", "-np", str(WORKERS), "--no-prefix", "--", *train_command(*OPTIONS, *options)]
        launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(launcher.kill)
        return launcher

    def worker(self, launcher, rank):
        return workers_of(launcher.pid)[rank]

    def finish(self, launcher):
        out, said = launcher.communicate(timeout=2 * LIMIT)
        return launcher.returncode, out, said

    def check_stopped(self, said, who, checkpoint):
        """All workers say the same and the launcher nothing; the step."""
        found = re.findall(LINE, said, re.MULTILINE)
        self.assertEqual(len(found), WORKERS, said)
        self.assertEqual(len(set(found)), 1, said)
        step, asked, where = found[0]
        self.assertRegex(asked, who)
        self.assertEqual(where, "its checkpoint is in '%s'" % self.folder if checkpoint else "it has no checkpoint")
        self.assertNotIn("exit status", said)
        self.assertNotIn("FLIGHT_RECORD", said)
        return int(step)

    def check_end(self, options, step, *checkpoint):
        """The training goes on after the step to the end of the next epoch but one, with the bits of an undisturbed one."""
        options = (*options, "--epochs", str(step // STEPS_OF_EPOCH[options] + 2))
        status, out, said = self.finish(self.launch(*options, "--checkpoint", self.folder, *checkpoint))
        self.assertEqual(status, 0, said)
        self.assertIn("training goes on after step %d " % step, said)
        self.assertEqual(numbers(out), undisturbed(*options))
        self.assertEqual(os.listdir(self.folder), [])

    def check_stops(self, options, stop, who, *checkpoint):
        """Stops again and again, at random moments after the first epoch, then lets the training finish."""
        before = 0
        for _ in range(ROUNDS):
            launcher = self.launch(*options, "--checkpoint", self.folder, *checkpoint)
            for _ in range(2):
                wait_for_line(launcher.stdout, "Epoch ")
            time.sleep(random.uniform(0, 0.4))
            stop(launcher)
            status, _, said = self.finish(launcher)
            self.assertEqual(status, 143, said)
            step = self.check_stopped(said, who, True)
            self.assertGreater(step, before)
            before = step
            names = sorted(os.listdir(self.folder))
            self.assertEqual(names[-1], "checkpoint-%012d.safetensors" % step)
        self.check_end(options, step, *checkpoint)

    def test_to_one_worker(self):
        self.check_stops(STEPS, lambda launcher: os.kill(self.worker(launcher, random.randrange(WORKERS)), signal.SIGTERM),
                         r"rank \d")

    def test_to_the_launcher(self):
        self.check_stops(STEPS, lambda launcher: launcher.send_signal(signal.SIGTERM), r"rank \d|\d workers",
                         "--checkpoint-steps", "1000000")

    def test_while_most_of_the_time_goes_to_evaluation(self):
        self.check_stops(EVALUATIONS, lambda launcher: os.kill(self.worker(launcher, 2), signal.SIGTERM), "rank 2")

    def test_without_a_checkpoint(self):
        launcher = self.launch(*STEPS)
        wait_for_line(launcher.stdout, "Epoch 3/")
        os.kill(self.worker(launcher, 1), signal.SIGTERM)
        status, _, said = self.finish(launcher)
        self.assertEqual(status, 143, said)
        self.check_stopped(said, "rank 1", False)

    def test_usr1_saves_and_goes_on(self):
        launcher = self.launch(*STEPS, "--checkpoint", self.folder, "--checkpoint-steps", "1000000")
        wait_for_line(launcher.stdout, "Epoch 3/")
        os.kill(self.worker(launcher, 1), signal.SIGUSR1)
        deadline = time.monotonic() + 20
        names = []
        while not names and time.monotonic() < deadline:
            time.sleep(0.005)
            names = [name for name in os.listdir(self.folder) if not name.startswith(".")]
        self.assertRegex(names[0], r"^checkpoint-\d{12}\.safetensors$")
        wait_for_line(launcher.stdout, "Epoch ")
        launcher.send_signal(signal.SIGTERM)
        status, _, said = self.finish(launcher)
        self.assertEqual(status, 143, said)
        step = self.check_stopped(said, r"rank \d|\d workers", True)
        self.assertGreater(step, int(names[0][11:23]))
        self.check_end(STEPS, step)

    def test_before_the_first_step(self):
        """Of a worker that waits for another to join, and then of one that all have met: nothing is to be saved."""
        for number, expected in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            cluster = Cluster(2, train_command(*OPTIONS, *STEPS), {"LOCKSTEP_REPORT_INTERVAL": "0.5"})
            waiting = cluster.start(0)
            wait_for_line(waiting.stderr, "waiting")
            begun = time.monotonic()
            waiting.send_signal(number)
            self.assertEqual(waiting.wait(timeout=LIMIT), expected)
            self.assertLess(time.monotonic() - begun, 3 * PACE)
            self.assertRegex(waiting.communicate()[1], r"CANCELLED: worker:0 \(rank 0\) was asked to stop")
            cluster.start_all()
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "replicas in sync")
            cluster.kill(0, number)  # it draws its digits now
            results = cluster.finish()
            self.assertEqual([results[("worker", rank)][0] for rank in (0, 1)], [expected, 143], results)
            self.assertRegex(results[("worker", 1)][2], r"stopped after step \d+, as rank 0 asked|was asked to stop")

    def wait_with_a_lost_one(self, number, asked, **environment):
        """Three workers, of which the last is killed while the others train and wait for it; asked gets the signal."""
        environment = {"LOCKSTEP_REJOIN_TIMEOUT": "600", "LOCKSTEP_REPORT_INTERVAL": "0.2", **environment}
        cluster = Cluster(WORKERS, train_command(*OPTIONS, *STEPS, "--checkpoint", self.folder, "--checkpoint-steps", "1000000"),
                          environment)
        cluster.start_all()
        first = cluster.tasks[("worker", 0)]
        for _ in range(2):
            wait_for_line(first.stdout, "Epoch ")
        cluster.kill(WORKERS - 1)
        for rank in range(WORKERS - 1):
            wait_for_line(cluster.tasks[("worker", rank)].stderr, "waiting for (worker:0, which leads and waits for )?[12] of 3 workers")
        begun = time.monotonic()
        cluster.kill(asked, number)
        results = cluster.finish()
        self.assertLess(time.monotonic() - begun, 10 * PACE)
        return cluster, [results[("worker", rank)] for rank in range(WORKERS - 1)]

    def test_while_it_waits_for_a_lost_one(self):
        """The chief saves what is committed, whoever was asked; the others hear that one has left, not of a crash."""
        for number, asked in ((signal.SIGTERM, 0), (signal.SIGINT, 1)):
            own = 128 + number
            _, results = self.wait_with_a_lost_one(number, asked)
            self.assertEqual([result[0] for result in results], [own if rank == asked else 143 for rank in (0, 1)], results)
            for _, _, said in results:
                self.assertRegex(said, r"CANCELLED: .*stopped after step \d+: .*worker:%d \(rank %d\) was asked to stop" %
                                 (asked, asked))
                self.assertNotIn("worker:%d (rank %d, 127" % (asked, asked), said)  # as who is lost is named
                self.assertNotIn("FLIGHT_RECORD", said)
            step = int(re.search(r"stopped after step (\d+): .*; its checkpoint is in '%s'" % self.folder, results[0][2]).group(1))
            self.assertIn("checkpoint-%012d.safetensors" % step, os.listdir(self.folder))
            self.check_end(STEPS, step)

    def test_in_a_collective_that_another_does_not_come_to(self):
        """The other one is frozen, and the limit of silence is high: after 2 s the step is given up."""
        cluster = Cluster(2, train_command(*OPTIONS, *STEPS, "--checkpoint", self.folder, "--checkpoint-steps", "1000000"),
                          {"LOCKSTEP_HEARTBEAT_LIMIT": "60"})
        cluster.start_all()
        first = cluster.tasks[("worker", 0)]
        wait_for_line(first.stdout, "Epoch 3/")
        cluster.kill(1, signal.SIGSTOP)
        time.sleep(0.3)
        begun = time.monotonic()
        cluster.kill(0, signal.SIGTERM)
        status = first.wait(timeout=LIMIT)
        self.assertLess(time.monotonic() - begun, 10 * PACE)
        cluster.kill(1, signal.SIGCONT)
        results = cluster.finish()
        self.assertEqual(status, 143)
        self.assertIn(results[("worker", 1)][0], (143, 138))  # it wakes when the other one has gone
        self.assertNotIn("FLIGHT_RECORD", results[("worker", 0)][2])
        step = re.search(r"stopped after step (\d+): .*; its checkpoint is in", results[("worker", 0)][2]).group(1)
        self.assertIn("checkpoint-%012d.safetensors" % int(step), os.listdir(self.folder))

    def test_in_validation_with_a_lost_one(self):
        """What is committed is the end of an epoch that is not validated: the next start validates it."""
        cluster = Cluster(WORKERS, train_command(*OPTIONS, *EVALUATIONS, "--checkpoint", self.folder, "--checkpoint-steps", "1000000"),
                          {"LOCKSTEP_REJOIN_TIMEOUT": "600", "LOCKSTEP_REPORT_INTERVAL": "0.2"})
        cluster.start_all()
        first = cluster.tasks[("worker", 0)]
        for _ in range(2):
            wait_for_line(first.stdout, "Epoch ")
        time.sleep(0.05)  # two steps later it validates, and does so for most of the time
        cluster.kill(1)
        wait_for_line(first.stderr, "waiting for [12] of 3 workers")
        cluster.kill(0, signal.SIGTERM)
        results = cluster.finish()
        self.assertEqual([results[("worker", rank)][0] for rank in (0, 2)], [143, 143], results)
        self.check_end(EVALUATIONS, int(re.search(r"stopped after step (\d+)", results[("worker", 0)][2]).group(1)))

    def test_of_evaluate_and_predict(self):
        """All workers end, and none takes it for a crash."""
        weights = os.path.join(self.folder, "weights.safetensors")
        subprocess.run(train_command("--epochs", "1", "--limit", "100", "--save-best", weights), check=True, capture_output=True)
        for command in (["evaluate"], ["predict", "--output", os.path.join(self.folder, "out.npy")]):
            cluster = Cluster(2, [LOCKSTEP, *command, "--weights", weights, "--dataset", "digits", "--batch-size", "2"],
                              {"LOCKSTEP_REJOIN_TIMEOUT": "600"})
            cluster.start_all()
            wait_for_line(cluster.tasks[("worker", 0)].stderr, "replicas in sync")
            cluster.kill(1, signal.SIGTERM)
            results = cluster.finish()
            self.assertEqual([results[("worker", rank)][0] for rank in (0, 1)], [143, 143], results)
            self.assertIn("worker:1 (rank 1) was asked to stop", results[("worker", 0)][2])

    def test_the_second_one_is_the_end(self):
        """Where the first one leads nowhere, because another worker is frozen."""
        cluster = Cluster(2, train_command(*OPTIONS, *STEPS), {"LOCKSTEP_HEARTBEAT_LIMIT": "60"})
        cluster.start_all()
        first = cluster.tasks[("worker", 0)]
        wait_for_line(first.stdout, "Epoch 3/")
        cluster.kill(1, signal.SIGSTOP)
        time.sleep(0.5)
        cluster.kill(0, signal.SIGTERM)
        time.sleep(0.5)
        self.assertIsNone(first.poll())
        cluster.kill(0, signal.SIGTERM)
        self.assertEqual(first.wait(timeout=LIMIT), -signal.SIGTERM)
        cluster.kill(1, signal.SIGCONT)
        self.assertEqual(cluster.finish()[("worker", 1)][0], 138)

    @unittest.skipIf(os.geteuid(), "namespaces of processes need root")
    def test_the_first_process_of_a_container_ends_too(self):
        """The kernel spares it a signal's own effect."""
        train = Cluster(2, train_command(*OPTIONS)).command
        cluster = Cluster(2, ["unshare", "--pid", "--fork", *train], {"LOCKSTEP_REPORT_INTERVAL": "0.5"})
        outer = cluster.start(0)
        wait_for_line(outer.stderr, "waiting")
        os.kill(children_of(outer.pid)[0], signal.SIGTERM)
        self.assertEqual(cluster.finish()[("worker", 0)][0], 143)


if __name__ == "__main__":
    unittest.main(verbosity=2)
