#!/usr/bin/env python3
"""The Python package on the standard library's memory: every collective, misuse, and how a script may end."""
import os
import re
import sys
import tempfile
import unittest
import subprocess
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from drawing import half_of  # noqa: E402
from ranks import HERE, LIMIT, environment, run  # noqa: E402

SEED = os.environ.get("LOCKSTEP_TEST_SEED") or str(int.from_bytes(os.urandom(4), "little"))


@half_of
class Package(unittest.TestCase):
    def whole(self, count, program, *arguments, options=(), **extra):
        status, out, err = run(count, program, *arguments, options=options, **extra)
        self.assertEqual((status, out.count("whole")), (0, count), f"seed {SEED}\n{out}{err}")
        return out, err

    def test_every_collective(self):
        """The seed says which groups add in the tree and which round the ring; test_table has both orders each time."""
        for count in (1, 2, 3, 4):
            communication, transport = (("auto", "auto"), ("ring", "tcp"))[(count + int(SEED)) % 2]
            with self.subTest(count=count, communication=communication):
                self.whole(count, "every_collective.py", communication, SEED, LOCKSTEP_TRANSPORT=transport)

    def test_table(self):
        """Larger groups are in tests/runtime/table_test.c."""
        for count in (1, 2, 3):
            self.whole(count, "table.py", "ring" if count % 2 else "auto")

    def test_wheel(self):
        """As pip unpacks it: the command and python -m lockstep.run start a script with the wheel's own library."""
        with tempfile.TemporaryDirectory() as folder:
            built = subprocess.run([sys.executable, os.path.join(HERE, "../../python/build_wheel"), "--out", folder, "--library",
                                    os.environ["LOCKSTEP_LIBRARY"]], check=True, capture_output=True, text=True)
            with zipfile.ZipFile(built.stdout.strip()) as wheel:
                for entry in wheel.infolist():
                    os.chmod(wheel.extract(entry, folder), entry.external_attr >> 16)
            clean = {key: value for key, value in os.environ.items() if not key.startswith(("LOCKSTEP", "PYTHONPATH"))}
            script = os.path.join(HERE, "every_collective.py")
            for options in (["-np", "2"], ["-np", "2", "--"], ["-np", "2", "--", sys.executable]):
                done = subprocess.run([sys.executable, "-m", "lockstep.run", *options, script, "auto", SEED], capture_output=True, text=True,
                                      env={**clean, "PYTHONPATH": folder}, timeout=LIMIT, check=False)
                self.assertEqual((done.returncode, done.stdout.count("whole")), (0, 2), f"seed {SEED}\n{done.stdout}{done.stderr}")
            done = subprocess.run([sys.executable, "-c", "from lockstep.run import command; command()", "--version"], capture_output=True,
                                  text=True, env={**clean, "PYTHONPATH": folder}, timeout=LIMIT, check=False)
            self.assertRegex(done.stdout, r"^lockstep \d+\.\d+\.\d+")

    def test_misuse(self):
        self.whole(2, "misuse.py")
        self.whole(3, "misuse.py")

    def test_dropped(self):
        """A call that was begun holds its arrays until it has ended, whoever drops what stands for it."""
        for count in (2, 3):
            with self.subTest(count=count), tempfile.TemporaryDirectory() as folder:
                self.whole(count, "dropped.py", os.path.join(folder, "flag"))

    def test_named(self):
        for count in (1, 3):
            with self.subTest(count=count):
                self.whole(count, "named.py")

    def test_messages(self):
        for count, transport in ((1, "auto"), (2, "shm"), (3, "tcp")):
            with self.subTest(count=count, transport=transport), tempfile.TemporaryDirectory() as folder:
                self.whole(count, "messages.py", os.path.join(folder, "flag"), LOCKSTEP_TRANSPORT=transport)

    def test_end(self):
        for how, status, words in (("raises", 1, "aborted: ValueError: a broken script"),
                                   ("exits", 7, r"aborted: sys.exit\(7\)"),
                                   ("leaves", 2, "rank 1 has finished"),
                                   ("killed", 137, "worker:1")):
            with self.subTest(how=how):
                found, out, err = run(2, "ends.py", how)
                others = "".join(line for line in err.splitlines(True) if line.startswith("[0]"))
                self.assertTrue(re.search(words, others), out + err)
                self.assertIn("LockstepError", others)
                if how != "leaves":
                    self.assertEqual(found, status, out + err)

    def test_fork(self):
        """A child of fork does not keep a dead rank's sockets open: the others need not wait for the heartbeat's limit."""
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                _, _, err = run(2, "ends.py", "forked", LOCKSTEP_TRANSPORT=transport)
                self.assertRegex(err, r"LockstepError.*rank 1.*its connection was closed")

    def test_interrupt(self):
        for how in ("interrupted", "interrupted behind"):
            with self.subTest(how=how):
                _, out, err = run(2, "ends.py", how)
                self.assertIn("[1] KeyboardInterrupt", err)
                self.assertRegex(err, r"\[0\].*(Ctrl-C|KeyboardInterrupt)")
                waited = float(re.search(r"waited ([\d.]+)", out).group(1))
                self.assertLess(waited, 5)  # 0.3 where nothing else runs; the deadline is 300

    def test_recovery(self):
        out, _ = self.whole(3, "again.py", options=("--restart", "1"), timeout=2 * LIMIT)
        self.assertGreaterEqual(out.count("recovered"), 2)

    def test_memory_at_exit(self):
        """What all_to_all has returned is there for as long as a variable holds it, also when the interpreter ends."""
        program = ("import array, atexit, lockstep\natexit.register(lambda: print(bytes(found) == bytes(numbers)))\nlockstep.init()\n"
                   "numbers = array.array('f', [1.5] * 300)\nfound, _ = lockstep.world().all_to_all(numbers)")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, cwd=HERE,
                              env=environment(MALLOC_PERTURB_="85"))
        self.assertEqual(done.stdout, "True\n", done.stderr)

    def test_no_library(self):
        program = "import lockstep; lockstep.init()"
        for named, words in (("/nowhere/liblockstep.so.0", "LOCKSTEP_LIBRARY"), ("libc.so.6", "ls_version")):
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, cwd=HERE,
                                  env=environment(LOCKSTEP_LIBRARY=named))
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    def test_absent_function(self):
        program = ("import lockstep._library as l\nl.FUNCTIONS['ls_nothing'] = (None, [])\nl.library().ls_nothing()")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, cwd=HERE,
                              env=environment())
        self.assertRegex(done.stderr, r"UNIMPLEMENTED: liblockstep \d+\.\d+\.\d+ has no ls_nothing")


if __name__ == "__main__":
    unittest.main(verbosity=2)
