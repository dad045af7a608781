#!/usr/bin/env python3
"""Checkpoints as users meet them: all workers killed at random moments and started again, damaged files, full, read-only
and missing folders. The end is that of an undisturbed run, bit for bit."""
import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from cluster import ENDLESS, LIMIT, LOCKSTEP, Cluster, half_of, last_json, newest_step, train_command, workers_of

# a second or two of training; momentum and moments, a short last step in each epoch, a shuffle in each
SMALL = ("--json", "--verbose", "-1", "--optimizer", "adam", "--limit", "1000", "--no-validation", "--batch-size", "72",
         "--epochs", "50")
STEPS = 14  # of an epoch of these
SHORT = ("--json", "--verbose", "-1", "--limit", "500", "--no-validation", "--batch-size", "50", "--epochs", "3")
VARIABLES = [layer + part for layer in ("dense", "dense_1", "dense_2") for part in ("/kernel", "/bias")]
NUMBERS = ("steps", "loss", "accuracy", "weights_sha256")
LONG_FORM = bool(os.environ.get("LOCKSTEP_TEST_FULL"))


def train(*options, before=None):
    """One worker; before is a shell command that runs first, in a mount namespace of its own."""
    command = train_command(*options)
    if before:
        command = ["unshare", "--mount", "sh", "-ec", before + ' && exec "$0" "$@"', *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT)


def numbers(result):
    return [result[name] for name in NUMBERS]


def read_checkpoint(path):
    """(texts, {name: (dtype, shape, bytes)}) by nothing but the format's description."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    texts = header.pop("__metadata__")
    body = data[8 + length:]
    return texts, {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
                   for name, entry in header.items()}


def weights_sha256(tensors, names):
    """What lockstep train prints, made from a checkpoint."""
    digest = hashlib.sha256()
    for name in names:
        _, shape, values = tensors[name]
        digest.update(name.encode() + b"\0" + struct.pack("<q%dq" % len(shape), len(shape), *shape) + values)
    return digest.hexdigest()


@half_of
class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="checkpoint-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def names(self):
        """Of all but the lock, which a killed job leaves behind and nobody minds."""
        return sorted(name for name in os.listdir(self.folder) if name != ".lock")

    def finished(self):
        return [name for name in self.names() if not name.startswith(".")]

    def path(self, index):
        return os.path.join(self.folder, self.finished()[index])

    def succeed(self, *options, **more):
        done = train(*options, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return last_json(done.stdout), done.stderr

    def start(self, workers, options):
        """Only the first worker knows the folder."""
        cluster = Cluster(workers, train_command(*options, "--checkpoint", self.folder))
        for index in range(workers):
            elsewhere = train_command(*options, "--checkpoint", "/only/the/chief/has/it")
            cluster.start(index, command=elsewhere if index else None)
        return cluster

    def check_kills(self, workers, *checkpoint):
        """Kills all workers again and again, every second time after one more checkpoint, then lets them finish."""
        options = (*SMALL, *ENDLESS, *checkpoint)
        for round in range(24 if LONG_FORM else 4):
            before = newest_step(self.folder)
            cluster = self.start(workers, options)
            while round % 2 and newest_step(self.folder) == before and cluster.tasks[("worker", 0)].poll() is None:
                time.sleep(0.01)
            time.sleep(random.uniform(0.05, 0.5))
            for index in random.sample(range(workers), workers):
                cluster.kill(index)
            cluster.finish()
        epochs = ("--epochs", str(newest_step(self.folder) // STEPS + 2))
        undisturbed, _ = self.succeed(*SMALL, *epochs, "--devices", str(workers))
        results = self.start(workers, (*options, *epochs)).finish(timeout=2 * LIMIT)
        self.assertEqual({status for status, _, _ in results.values()}, {0}, results)
        self.assertEqual(numbers(last_json(results[("worker", 0)][1])), numbers(undisturbed))
        self.assertEqual(os.listdir(self.folder), [])
        self.assertIn("training goes on after step", results[("worker", 0)][2])

    def test_one_worker_killed(self):
        self.check_kills(1, "--checkpoint-steps", "1", "--checkpoint-keep", "1")
        self.check_kills(1)

    def test_all_of_two_workers_killed(self):
        self.check_kills(2, "--checkpoint-steps", "3")

    def test_the_survivors_end_and_all_go_on(self):
        """Without all: the others end with 138, and what they do last harms no checkpoint."""
        for victim in (0, 1):
            before = newest_step(self.folder)
            cluster = self.start(2, (*SMALL, *ENDLESS))
            while newest_step(self.folder) == before and cluster.tasks[("worker", 0)].poll() is None:
                time.sleep(0.01)
            cluster.kill(victim)
            results = cluster.finish()
            self.assertEqual(results[("worker", 1 - victim)][0], 138, results)
        options = (*SMALL, "--epochs", str(newest_step(self.folder) // STEPS + 2))
        undisturbed, _ = self.succeed(*options, "--devices", "2")
        results = self.start(2, options).finish(timeout=2 * LIMIT)
        self.assertIn("training goes on after step", results[("worker", 0)][2])
        self.assertEqual(numbers(last_json(results[("worker", 0)][1])), numbers(undisturbed))

    def test_the_launcher_restarts_who_is_killed(self):
        """And, where they do not wait for it, who lost it: the whole group goes on after the exact step."""
        options = (*SMALL, "--epochs", "40")
        undisturbed, _ = self.succeed(*options, "--devices", "3")
        command = [LOCKSTEP, "run", "-np", "3", "--restart", "10", "--no-prefix", "--",
                   *train_command(*options, "--checkpoint", self.folder, "--checkpoint-steps", "20")]
        launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=dict(os.environ, LOCKSTEP_REJOIN_TIMEOUT="0"))
        while not self.names() and launcher.poll() is None:
            time.sleep(0.01)
        victim = workers_of(launcher.pid)[1]
        os.kill(victim, signal.SIGKILL)
        out, said = launcher.communicate(timeout=2 * LIMIT)
        self.assertEqual(launcher.returncode, 0, said)
        self.assertEqual(numbers(last_json(out)), numbers(undisturbed))
        self.assertRegex(said, r"worker:1 \(rank 1, pid %d\) was killed by signal 9 \(SIGKILL\); started anew" % victim)
        self.assertEqual(said.count("started anew"), 3, said)
        self.assertEqual(said.count("training goes on after step"), 1, said)
        self.assertEqual(self.names(), [])

    def test_the_files_are_safetensors(self):
        result, _ = self.succeed(*SHORT, "--optimizer", "adam", "--checkpoint", self.folder, "--checkpoint-retain",
                                 "--checkpoint-keep", "1")
        self.assertEqual(self.names(), ["checkpoint-000000000030.safetensors"])
        texts, tensors = read_checkpoint(self.path(0))
        self.assertEqual(weights_sha256(tensors, VARIABLES), result["weights_sha256"])
        moments = ["optimizer/moment_%d/%s" % (moment, name) for moment in (1, 2) for name in VARIABLES]
        self.assertEqual(sorted(tensors), sorted([*VARIABLES, *moments, "lockstep.sha256"]))
        self.assertEqual({dtype for dtype, _, _ in tensors.values()}, {"F32", "U8"})
        self.assertEqual((texts["step"], texts["position"], texts["steps_per_epoch"], texts["generation"]),
                         ("30", "30", "10", "1"))
        with open(self.path(0), "rb") as file:
            data = file.read()
        self.assertEqual(hashlib.sha256(data[:-64]).hexdigest().encode(), data[-64:])

    def test_a_damaged_file_is_named_and_the_one_before_is_used(self):
        undisturbed, _ = self.succeed(*SHORT)
        for at in (0, 9, 500, -1000, -1):
            self.succeed(*SHORT, "--checkpoint", self.folder, "--checkpoint-retain")
            newest = self.path(-1)
            with open(newest, "r+b") as file:
                data = bytearray(file.read())
                data[at] ^= 1
                file.seek(0)
                file.write(data)
            older = int(self.path(-2)[-24:-12])
            result, said = self.succeed(*SHORT, "--checkpoint", self.folder)
            self.assertEqual(numbers(result), numbers(undisturbed))
            self.assertEqual(said.count("warning"), 1, said)
            self.assertIn("checkpoint '%s' is damaged" % newest, said)
            self.assertIn("training goes on after step %d " % older, said)
            damaged = "damaged-" + os.path.basename(newest)
            self.assertIn("it is kept as '%s'" % damaged, said)
            self.assertEqual(os.listdir(self.folder), [damaged])
            os.unlink(os.path.join(self.folder, damaged))

    def test_another_training_is_refused(self):
        self.succeed(*SHORT, "--checkpoint", self.folder, "--checkpoint-retain")
        done = train(*SHORT, "--learning-rate", "0.5", "--checkpoint", self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("learning_rate=0.1", done.stderr)
        self.assertIn(self.path(-1), done.stderr)

    def check_trouble(self, folder, cause, before=None):
        """By default one error that names path and cause; where the user wants that one warning, and the same end. It is told
        at a step after the write has failed, so there are many."""
        options = (*SHORT[:-1], "60")
        undisturbed, _ = self.succeed(*options)
        done = train(*options, "--checkpoint", folder, before=before)
        last = done.stderr.strip().splitlines()[-1]
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(folder, last)
        self.assertIn(cause, last)
        result, said = self.succeed(*options, "--checkpoint", folder, "--checkpoint-errors", "warn", before=before)
        self.assertEqual(numbers(result), numbers(undisturbed))
        self.assertEqual(said.count("warning"), 1, said)
        self.assertRegex(said, "warning: .*%s.*%s.*training goes on" % (folder, cause))

    def test_a_missing_folder(self):
        self.check_trouble(os.path.join(self.folder, "no", "parent"), "No such file or directory")

    @unittest.skipIf(os.geteuid(), "mounting needs root")
    def test_a_read_only_folder(self):
        self.check_trouble(self.folder, "Read-only file system",
                           "mount -t tmpfs -o ro,size=64k tmpfs %s" % self.folder)

    @unittest.skipIf(os.geteuid(), "mounting needs root")
    def test_a_full_disk(self):
        self.check_trouble(self.folder, "No space left on device", "mount -t tmpfs -o size=64k tmpfs %s" % self.folder)

    @unittest.skipIf(os.geteuid(), "mounting needs root")
    def test_a_disk_that_fills_keeps_the_older_one(self):
        """Room for one checkpoint (0.1 MB) and a half: the first one stays, and is whole."""
        script = ("mount -t tmpfs -o size=160k tmpfs %s; ! \"$0\" \"$@\" 2> %s.said; ls -A %s; exec \"$0\" \"$@\" "
                  "--checkpoint-errors warn") % ((self.folder,) * 3)
        self.addCleanup(os.remove, self.folder + ".said")
        options = (*SHORT, "--epochs", "100", "--checkpoint", self.folder, "--checkpoint-steps", "1")
        done = subprocess.run(["unshare", "--mount", "sh", "-ec", script, *train_command(*options)], capture_output=True,
                              text=True, timeout=2 * LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.folder + ".said", encoding="utf-8") as said:
            self.assertIn("No space left on device", said.read())
        self.assertRegex(done.stdout.splitlines()[0], r"^checkpoint-\d{12}\.safetensors$")
        self.assertIn("training goes on after step", done.stderr)
        undisturbed, _ = self.succeed(*SHORT, "--epochs", "100")
        self.assertEqual(numbers(last_json(done.stdout)), numbers(undisturbed))

    # ---- two jobs, one folder

    def await_checkpoint(self, cluster):
        while not self.finished():
            self.assertIsNone(cluster.tasks[("worker", 0)].poll())
            time.sleep(0.01)

    def lock(self):
        with open(os.path.join(self.folder, ".lock"), encoding="ascii") as lock:
            return lock.read()

    def test_a_second_job_is_kept_out(self):
        undisturbed, _ = self.succeed(*SMALL)
        other, _ = self.succeed(*SHORT)
        first = self.start(1, (*SMALL, "--checkpoint-steps", "1"))
        self.await_checkpoint(first)
        os.kill(first.tasks[("worker", 0)].pid, signal.SIGSTOP)  # so that it is there until the others have ended
        results = self.start(2, SHORT).finish()
        self.assertEqual([status for status, _, _ in results.values()], [1, 138], results)
        for _, _, said in results.values():
            self.assertRegex(said.strip().splitlines()[-1], "checkpoint folder '%s' is in use by another job, process %d on "
                             % (self.folder, first.tasks[("worker", 0)].pid))
        result, said = self.succeed(*SHORT, "--checkpoint", self.folder, "--checkpoint-errors", "warn")
        self.assertEqual(numbers(result), numbers(other))
        self.assertEqual(said.count("warning"), 1, said)
        self.assertIn("in use by another job", said)
        os.kill(first.tasks[("worker", 0)].pid, signal.SIGCONT)
        status, out, said = first.finish()[("worker", 0)]
        self.assertEqual((status, numbers(last_json(out))), (0, numbers(undisturbed)), said)
        self.assertEqual(os.listdir(self.folder), [])

    def test_the_chief_that_comes_back_writes_on(self):
        """Also where the one before still has the lock: a frozen process on another machine, whom this test stands in
        for. The manifest counts the generations."""
        options = (*SMALL, "--checkpoint-steps", "1", "--checkpoint-retain")
        undisturbed, _ = self.succeed(*SMALL, "--devices", "2")
        for frozen in (False, True):
            cluster = Cluster(2, train_command(*options, "--checkpoint", self.folder))
            cluster.environment["LOCKSTEP_REJOIN_TIMEOUT"] = "60"
            cluster.start_all()
            self.await_checkpoint(cluster)
            before = self.lock()
            cluster.kill(0)
            cluster.tasks[("worker", 0)].communicate()
            with open(os.path.join(self.folder, ".lock"), encoding="ascii") as left:
                if frozen:
                    fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                cluster.start(0)
                results = cluster.finish()
            self.assertEqual([status for status, _, _ in results.values()], [0, 0], results)
            self.assertEqual(last_json(results[("worker", 0)][1])["weights_sha256"], undisturbed["weights_sha256"])
            self.assertTrue(before.startswith("pid "), before)
            texts, _ = read_checkpoint(self.path(-1))
            generation, = re.findall(r"all 2 workers .*\(generation (\d+):", results[("worker", 1)][2])
            self.assertGreater(int(generation), 1)
            self.assertEqual((texts["step"], texts["generation"]), (str(undisturbed["steps"]), generation))
            self.assertNotIn(".lock", os.listdir(self.folder))
            for name in self.names():
                os.remove(os.path.join(self.folder, name))

    def test_an_elastic_training_goes_on_writing_without_the_chief(self):
        """Also where the new first worker has no such folder: that is a warning."""
        undisturbed, _ = self.succeed(*SMALL, "--devices", "3")
        for shared in (True, False):
            cluster = Cluster(3, train_command(*SMALL, "--checkpoint-steps", "1", "--checkpoint-retain", "--checkpoint",
                                               self.folder))
            cluster.environment.update(LOCKSTEP_REJOIN_TIMEOUT="0.5", LOCKSTEP_ELASTIC="2:3")
            for index in range(3):
                elsewhere = [*cluster.command[:-1], "/only/the/chief/has/it"]
                cluster.start(index, command=elsewhere if index and not shared else None)
            self.await_checkpoint(cluster)
            cluster.kill(0)
            results = cluster.finish(timeout=2 * LIMIT)
            self.assertEqual([status for status, _, _ in results.values()], [-signal.SIGKILL, 0, 0], results)
            said = results[("worker", 1)][2]
            texts, tensors = read_checkpoint(self.path(-1))
            self.assertEqual(int(texts["step"]) == undisturbed["steps"], shared)
            self.assertEqual(weights_sha256(tensors, VARIABLES) == undisturbed["weights_sha256"], shared)
            self.assertEqual("training goes on without a new checkpoint" in said, not shared, said)
            for name in os.listdir(self.folder):
                os.remove(os.path.join(self.folder, name))

    def test_the_manifest_counts_generations(self):
        """Those of the job from whose checkpoint it goes on, too."""
        before = []
        for generation in ("1", "2", "3"):
            cluster = self.start(1, (*SMALL, "--checkpoint-steps", "1"))
            while self.finished()[-1:] == before:
                self.assertIsNone(cluster.tasks[("worker", 0)].poll())
                time.sleep(0.01)
            cluster.kill(0)
            cluster.finish()
            texts, _ = read_checkpoint(self.path(-1))
            self.assertEqual(texts["generation"], generation)
            before = self.finished()[-1:]


if __name__ == "__main__":
    unittest.main(verbosity=2)
