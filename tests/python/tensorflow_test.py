#!/usr/bin/env python3
"""lockstep.tensorflow and lockstep.keras. They need TensorFlow: scripts/python-check makes a virtual environment with it."""
import importlib.util
import re
import unittest

from ranks import LIMIT, run


class TensorFlow(unittest.TestCase):
    def whole(self, count, program, *arguments, options=(), **extra):
        status, out, err = run(count, program, *arguments, options=options, timeout=3 * LIMIT, **extra)
        self.assertEqual((status, out.count("whole")), (0, count), out + err)
        return out, err

    def test_all(self):
        for count in (1, 2, 3):
            with self.subTest(count=count):
                self.whole(count, "tensorflow_ops.py")

    def test_more(self):
        for count in (1, 3):
            with self.subTest(count=count):
                self.whole(count, "tensorflow_more.py")

    def test_graph(self):
        """A session of TensorFlow 1 runs ops in any order."""
        for count in (1, 2, 3):
            with self.subTest(count=count):
                self.whole(count, "tensorflow_graph.py")

    @unittest.skipUnless(importlib.util.find_spec("tf_keras"), "tf-keras is not there")
    def test_legacy_keras(self):
        self.whole(2, "tensorflow_more.py", TF_USE_LEGACY_KERAS="1")

    def test_elastic(self):
        """A killed rank changes no bit of the result, and the warning says that a call has failed."""
        for how in ("plain", "keras"):
            def result(victim):
                out, err = self.whole(2, "tensorflow_elastic.py", how, victim, options=("--restart", "1"))
                if victim != "-":
                    self.assertRegex(err, r"warning: \S.*; waiting up to")
                return set(re.findall(r"whole (\S+)", out))
            undisturbed = result("-")
            self.assertEqual(len(undisturbed), 1)
            for victim in ("1:5", "0:6"):
                with self.subTest(how=how, victim=victim):
                    self.assertEqual(result(victim), undisturbed)

    def test_horovod_names(self):
        self.whole(1, "horovod_names.py", "lockstep.tensorflow", "lockstep.keras")


if __name__ == "__main__":
    unittest.main(verbosity=2)
