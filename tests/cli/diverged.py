"""A loss that is no number is seen: in the progress line, as one warning, at the end of whoever waited for a best epoch."""
import json
import os
import re
import tempfile

from arrays import dots
from cli import LOCKSTEP, contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
OPTIONS = ("--hidden", "8", "--batch-size", "16", "--shuffle", "never")


def spoiled(value):
    def change(x, _):
        x[40 * 4 + 1] = value  # example 40 is in step 3
    return dots(os.path.join(FOLDER.name, "%s.npz" % value), change=change)


def train(*options, workers=1):
    before = () if workers == 1 else ("run", "-np", str(workers), "--no-prefix", "--", LOCKSTEP)
    done = lockstep(*before, "train", *OPTIONS, *options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def warnings(err):
    return [line for line in err.splitlines() if "the loss is" in line and "warning" in line]


def the_progress_line_says_nan():
    for value in (float("nan"), float("inf")):
        status, out, err = train("--dataset", spoiled(value), "--epochs", "2", "--metrics", "mean_loss")
        equal(status, 0, err)
        for line in out.splitlines()[1::2]:
            contains(line, " - loss: nan - accuracy: 0.")
            contains(line, " - mean_loss: nan - val_loss: nan - val_accuracy: 0.")
        equal(len(warnings(err)), 1, err)
        contains(warnings(err)[0], "epoch 1, step 3: the loss is nan")


def one_worker_of_two_warns():
    status, out, err = train("--dataset", spoiled(float("nan")), "--epochs", "1", workers=2)
    equal(status, 0, err)
    contains(out, " - loss: nan - ")
    equal(len(warnings(err)), 1, err)


def what_is_not_there_is_not_printed():
    path = dots(os.path.join(FOLDER.name, "good.npz"))
    status, out, err = train("--dataset", path, "--epochs", "1", "--loss", "mean_squared_error", "--no-validation")
    equal(status, 0, err)
    equal(re.findall(r" - (\w+): ", out), ["loss"], out)
    equal(warnings(err), [], err)


def evaluate_says_nan():
    path, weights = spoiled(float("nan")), os.path.join(FOLDER.name, "nan.safetensors")
    status, _, err = train("--dataset", path, "--epochs", "1", "--save-each", weights)
    equal(status, 0, err)
    options = ("evaluate", "--dataset", path, "--hidden", "8", "--weights", weights)
    done = lockstep(*options)
    contains(done.stdout.decode(), "96 examples - loss: nan - accuracy: 0.")
    equal(json.loads(lockstep(*options, "--json").stdout)["loss"], None)


def the_end_on_nan_is_an_error():
    status, _, err = train("--dataset", spoiled(float("nan")), "--terminate-on-nan")
    equal(status, 1, err)
    contains(err, "OUT_OF_RANGE: epoch 1, step 3: terminate_on_nan: the loss is nan")
    equal(warnings(err), [], err)


def who_never_saved_says_so():
    path, best = spoiled(float("nan")), os.path.join(FOLDER.name, "best.npz")
    status, _, err = train("--dataset", path, "--epochs", "2", "--save-best", best)
    equal(status, 0, err)
    equal(os.path.exists(best), False)
    contains(err, "model_checkpoint: '%s' was not written: val_loss was a number after no epoch" % best)
    status, _, err = train("--dataset", dots(path), "--epochs", "1", "--save-best", best)
    equal((status, os.path.exists(best), "not written" in err), (0, True, False), err)


main([the_progress_line_says_nan, one_worker_of_two_warns, what_is_not_there_is_not_printed, evaluate_says_nan,
      the_end_on_nan_is_an_error, who_never_saved_says_so])
