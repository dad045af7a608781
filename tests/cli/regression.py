"""A regression on the command: y of floats trains as many outputs, is evaluated and predicted; classes, weights, mistakes."""
import csv
import json
import os
import tempfile

from arrays import dots, npz
from cli import LOCKSTEP, contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
EXAMPLES, WIDTH = 96, 3


def path_of(name):
    return os.path.join(FOLDER.name, name)


def plane(name, kind="<f4", columns=2, weighted=False):
    """y is 2 x0 - x1 + 1 and, in a second column, x2."""
    arrays = {}
    for split in ("train", "test"):
        x = [((i * 7 + j * 5) % 13) / 13 for i in range(EXAMPLES) for j in range(WIDTH)]
        rows = [x[i * WIDTH:(i + 1) * WIDTH] for i in range(EXAMPLES)]
        y = [value for a, b, c in rows for value in (2 * a - b + 1, c)[:columns]]
        if kind[1] == "i":
            y = [int(10 * value) for value in y]
        arrays["x_" + split] = ("<f4", (EXAMPLES, WIDTH), x)
        arrays["y_" + split] = (kind, (EXAMPLES, columns) if columns > 1 else (EXAMPLES,), y)
        if weighted:
            arrays["sample_weight_" + split] = ("<f4", (EXAMPLES,), [i % 3 / 2 for i in range(EXAMPLES)])
    return npz(path_of(name), arrays)


def run(command, *options, status=0):
    done = lockstep(command, *options)
    equal(done.returncode, status, done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def a_regression_from_floats():
    for columns in (1, 2):
        data, weights = plane("plane.npz", columns=columns), path_of("plane.safetensors")
        shape = ("--hidden", "none", "--dataset", data)
        out, err = run("train", *shape, "--loss", "mse", "--metrics", "mae", "--epochs", "150",
                       "--batch-size", "8", "--save-best", weights, "--json")
        result = json.loads(out.splitlines()[-1])
        equal(result["val_loss"] < 1e-3 and result["accuracy"] is None, True, out)
        equal("accuracy" in out.splitlines()[1], False, out)
        contains(out, " - mean_absolute_error: 0.")
        equal("y has classes" in err, False, err)
        out, _ = run("evaluate", *shape, "--weights", weights, "--loss", "mean_squared_error", "--json")
        equal(abs(json.loads(out)["loss"] - result["val_loss"]) < 1e-5, True, out)
        table = path_of("plane.csv")
        run("predict", *shape, "--weights", weights, "--output", table)
        with open(table, newline="") as file:
            rows = list(csv.reader(file))
        equal(rows[0], ["example", "0", "1"][:columns + 1])
        equal(abs(float(rows[1][1]) - (1 - 5 / 13)) < 0.1, True, rows[1])


def workers_agree():
    data = plane("plane.npz", weighted=True)
    options = ("--dataset", data, "--loss", "huber", "--huber-delta", "0.5", "--epochs", "2", "--batch-size", "12", "--json",
               "--metrics", "mean_squared_error", "--weighted-metrics", "mean_squared_error")
    alone = json.loads(run("train", *options, "--devices", "4")[0].splitlines()[-1])
    both = json.loads(run("run", "-np", "2", "--no-prefix", "--", LOCKSTEP, "train", *options, "--devices", "2")[0].splitlines()[-1])
    equal(both["weights_sha256"], alone["weights_sha256"])
    equal("weighted_mean_squared_error" in alone and "val_weighted_mean_squared_error" in alone, True, alone)


def integers_are_classes_and_it_is_said():
    data = plane("whole.npz", "<i4", 1)
    _, err = run("train", "--dataset", data, "--loss", "mean_absolute_error", "--epochs", "1")
    lines = [line for line in err.splitlines() if "y has classes" in line]
    equal(len(lines), 1, err)
    contains(lines[0], "mean_absolute_error compares 26 outputs with rows that have a 1 at the class; for a regression save y as float32")


def class_weights_count():
    data = dots(path_of("dots.npz"))
    options = ("train", "--dataset", data, "--epochs", "2", "--shuffle", "never", "--json")
    digests = {json.loads(run(*options, *more)[0].splitlines()[-1])["weights_sha256"]
               for more in ((), ("--class-weight", "1:5"), ("--class-weight", "0:1,1:5,2:0.5"))}
    equal(len(digests), 3)
    for bad, said in (("1:-2", "is no list of CLASS:WEIGHT"), ("1", "is no list"), ("1:2;2:3", "is no list"), ("", "is empty")):
        contains(run("train", "--class-weight", bad, status=2)[1], said)
    contains(run("train", "--dataset", data, "--class-weight", "3:1", status=2)[1], "class 3 is none of the dataset's 3")
    contains(run("train", "--dataset", plane("plane.npz", weighted=True), "--loss", "huber", "--class-weight", "0:1",
                 status=2)[1], "the dataset has sample weights")


def mistakes_say_what_to_do():
    data = plane("plane.npz")
    contains(run("train", "--dataset", data, status=2)[1], "mean_squared_error for a regression")
    arrays = {"x_train": ("<f4", (4, 1), [1, 2, 3, 4]), "y_train": ("<f4", (3,), [1, 2, 3])}
    contains(run("train", "--dataset", npz(path_of("short.npz"), arrays), status=2)[1],
             "y_train has shape (3), x_train has 4 examples")
    arrays["y_train"] = ("<i4", (4,), [1, -2, 3, 0])
    contains(run("train", "--dataset", npz(path_of("minus.npz"), arrays), status=2)[1], "for a regression save it as float32")


main([a_regression_from_floats, workers_agree, integers_are_classes_and_it_is_said, class_weights_count,
      mistakes_say_what_to_do])
