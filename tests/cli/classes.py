"""One wrong label: a model with a class for it is one warning, and above a limit an error that names the example."""
import os
import tempfile

from arrays import dots
from cli import contains, environment, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()


def wrong(label):
    def change(_, y):
        y[41] = label
    return dots(os.path.join(FOLDER.name, f"{label}.npz"), change=change)


def train(path, **variables):
    done = lockstep("train", "--dataset", path, "--hidden", "4", "--epochs", "1", "--verbose", "-1", "--no-validation",
                    env=environment(**variables))
    return done.returncode, done.stderr.decode()


def a_wrong_label_is_one_warning():
    status, err = train(wrong(999))
    equal(status, 0, err)
    equal(err.count("warning"), 1, err)
    contains(err, "data: numpy: 1000 classes, 4 of which occur: example 41 has label 999")
    equal(train(wrong(2))[1].count("warning"), 0)


def above_a_limit_it_is_an_error():
    path = wrong(1000000)
    status, err = train(path)
    equal(status, 2, err)
    contains(err, f"'{path}': example 41 has label 1000000, which makes 1000001 classes, of which 4 occur; at most 100000 are "
             "possible (LOCKSTEP_MAX_CLASSES)")
    status, err = train(wrong(999), LOCKSTEP_MAX_CLASSES="999")
    equal(status, 2, err)
    status, err = train(wrong(999), LOCKSTEP_MAX_CLASSES="1000")
    equal(status, 0, err)


main([a_wrong_label_is_one_warning, above_a_limit_it_is_an_error])
