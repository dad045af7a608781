"""What is possible and hardly meant is a warning, and what is missing says the way out."""
import os
import shutil
import tempfile

from arrays import dots, npz
from cli import contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
DATA = dots(os.path.join(FOLDER.name, "data.npz"))


def train(*options, dataset=DATA, status=0):
    done = lockstep("train", "--dataset", dataset, "--hidden", "4", "--epochs", "1", "--verbose", "-1", *options)
    equal(done.returncode, status, done.stderr.decode())
    return done.stderr.decode()


def top_k_of_all_classes_is_warned_of():
    contains(train("--metrics", "top_k=3"), "metric top_k_categorical_accuracy: k is 3, and there are 3 classes: it is always 1")
    equal(train("--metrics", "top_k=2").count("warning"), 0)


def odd_batches_are_warned_of():
    contains(train("--batch-size", "3", "--devices", "4"),
             "batch_size 3 is less than 4 replicas: 1 of them have no example in any step")
    contains(train("--batch-size", "1000"), "batch_size 1000 is more than the 96 examples of an epoch")
    equal(train("--batch-size", "96").count("warning"), 0)


def a_missing_split_says_the_way_out():
    path = npz(os.path.join(FOLDER.name, "half.npz"), {"x_train": ("<f4", (4, 1), [0, 1, 2, 3]), "y_train": ("<i4", (4,), [0, 1, 0, 1])})
    contains(train(dataset=path, status=1), "--no-validation trains without one")
    train("--no-validation", dataset=path)


def a_damaged_image_says_the_way_out():
    folder = os.path.join(FOLDER.name, "images")
    equal(lockstep("convert", "--dataset", "shapes", "--limit", "12", "--to", "jpeg", "--output", folder).returncode, 0)
    damaged = os.path.join(folder, "train", "circle", sorted(os.listdir(os.path.join(folder, "train", "circle")))[1])
    os.truncate(damaged, 400)
    for name in ("a.gif", "b.webp"):
        shutil.copy(damaged, os.path.join(folder, "train", "triangle", name))
    shutil.copy(damaged, os.path.join(folder, "train", "triangle", "c.txt"))
    err = train(dataset=folder, status=1)
    contains(err, "; LS_DAMAGE_SKIPPED (--skip-damaged) leaves such examples out")
    contains(err, ", 3 other files passed over")
    contains(train("--skip-damaged", dataset=folder), "warning: data: 2 images are passed over, as GIF, WebP")


main([top_k_of_all_classes_is_warned_of, odd_batches_are_warned_of, a_missing_split_says_the_way_out,
      a_damaged_image_says_the_way_out])
