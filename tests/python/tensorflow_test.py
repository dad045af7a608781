#!/usr/bin/env python3
"""lockstep.tensorflow and lockstep.keras. They need TensorFlow: scripts/python-check makes a virtual environment with it."""
import unittest

from ranks import run


class TensorFlow(unittest.TestCase):
    def test_all(self):
        for count in (1, 2, 3):
            with self.subTest(count=count):
                status, out, err = run(count, "tensorflow_ops.py", timeout=180)
                self.assertEqual((status, out.count("whole")), (0, count), out + err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
