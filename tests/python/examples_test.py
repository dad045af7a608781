#!/usr/bin/env python3
"""Each script of examples/python, with 1, 2 and 4 processes: what it has learned is compared. They need their framework alone:
torch or TensorFlow. Where it is not there they are skipped; scripts/python-check makes a virtual environment with both."""
import glob
import importlib.util
import os
import re
import unittest

from ranks import HERE, LIMIT, run

FOLDER = os.path.normpath(os.path.join(HERE, "..", "..", "examples", "python"))
NUMBER = r"([0-9.]+|nan)\b"
# script: what it needs; the number that its last line has, and its bounds
EXAMPLES = {
    "mnist_mlp.py": (["torch"], rf"epoch 5: loss [0-9.]+, accuracy {NUMBER}", 0.9, 1),
    "cnn_fp16.py": (["torch"], rf"epoch 4: loss {NUMBER}, lr 0\.00066", 0, 1.1),
    "keras_mnist.py": (["tensorflow", "keras"], rf"accuracy {NUMBER}", 0.8, 1),
    "tensorflow1_mnist.py": (["tensorflow", "tf_keras"], rf"accuracy {NUMBER}", 0.8, 1),
}


class Examples(unittest.TestCase):
    def test_all_are_known(self):
        self.assertEqual(sorted(EXAMPLES), sorted(os.path.basename(path) for path in glob.glob(os.path.join(FOLDER, "*.py"))))

    def test_they_import_their_framework_alone(self):
        allowed = {"argparse", "os", "numpy", "lockstep"}
        for name, (needs, *_) in EXAMPLES.items():
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                imported = set(re.findall(r"(?m)^(?:import|from) (\w+)", file.read()))
            self.assertLessEqual(imported, allowed | set(needs), name)

    def check(self, name):
        needs, pattern, least, most = EXAMPLES[name]
        missing = [module for module in needs if not importlib.util.find_spec(module)]
        if missing:
            self.skipTest(f"{missing[0]} is not there")
        for count in (1, 2, 4):
            with self.subTest(count=count):
                status, out, err = run(count, os.path.join(FOLDER, name), timeout=5 * LIMIT)
                self.assertEqual(status, 0, out + err)
                found = re.findall(pattern, out)
                self.assertEqual(len(found), 1, out + err)
                self.assertTrue(least <= float(found[0]) <= most, out)

    def test_mnist_mlp(self):
        self.check("mnist_mlp.py")

    def test_cnn_fp16(self):
        self.check("cnn_fp16.py")

    def test_keras_mnist(self):
        self.check("keras_mnist.py")

    def test_tensorflow1_mnist(self):
        self.check("tensorflow1_mnist.py")


if __name__ == "__main__":
    unittest.main(verbosity=2)
