#!/usr/bin/env python3
"""MobileNetV2 on image files at a reduced size: drawn JPEGs whose classes only the shape tells apart are learned by two workers. It takes
a minute, so it runs when what it guards has changed (tests/proofs.py)."""
import os
import tempfile
import unittest

from cluster import LIMIT, run_local
from images_test import TRAIN, convert


class Learned(unittest.TestCase):
    def test_shapes_are_learned(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-learned-")
        self.addCleanup(folder.cleanup)
        for split, count in (("train", 800), ("test", 200)):
            images = convert("shapes", "jpeg", os.path.join(folder.name, "shapes"), "--split", split, "--limit", count,
                             "--image-size", 64, "--quality", 90)
        result = run_local(2, 1, *TRAIN, "--alpha", "0.35", "--norm-momentum", "0.9", "--dataset", images,
                           "--learning-rate", "0.004", "--batch-size", "32", "--epochs", "30", "--augment",
                           "flip,crop=8,contrast=0.3,brightness=0.2", "--cache", timeout=9 * LIMIT)
        self.assertEqual(result["num_workers"], 2)
        self.assertGreaterEqual(result["val_accuracy"], 0.95, result)


if __name__ == "__main__":
    unittest.main(verbosity=2)
