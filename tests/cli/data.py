"""lockstep data: what it says of drawn arrays is what they hold, and each hint is there where its case is, and only there."""
import json
import os
import random
import tempfile

from arrays import npz
from cli import contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
HINTS = {"channels": "channels first", "pixels": "save them as uint8", "integers": "--model embedding", "large": "scale each column",
         "odd": "NaN or infinite", "constant": "they say nothing", "signs": "(y + 1) / 2", "classes": "where they are classes",
         "ones": "begin with 1", "unequal": "--class-weight", "batch": "--batch-size", "split": "--validation-split",
         "shape": "another shape", "missing": "have no example"}


def told(path, *options):
    done = lockstep("data", path, "--json", *options)
    equal(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)


def write(train, test=None, name="arrays.npz"):
    arrays = {}
    for split, (x, y) in {"train": train, **({"test": test} if test else {})}.items():
        arrays["x_" + split], arrays["y_" + split] = x, y
    return npz(os.path.join(FOLDER.name, name), arrays)


TRAINING = {"channels", "pixels", "integers", "large", "odd", "ones"}  # those that lockstep train says, too


def hints(*arguments, options=("--batch-size", "2")):
    path = write(*arguments)
    said = told(path, *options)["hints"]
    found = sorted(name for name, part in HINTS.items() if any(part in hint for hint in said))
    done = lockstep("train", "--dataset", path, *options, "--epochs", "1", "--steps-per-epoch", "1", "--hidden", "none", "--no-validation",
                    "--loss", "mse", "--verbose", "-1")
    warned = [line for line in done.stderr.decode().splitlines() if line.startswith("lockstep train: warning: ")]
    equal(sorted(name for name in TRAINING if any(HINTS[name] in line for line in warned)), sorted(TRAINING & set(found)), done.stderr)
    return found


def floats(*shape, low=-1.0, high=1.0, draw=random.Random(7)):
    count = 1
    for extent in shape:
        count *= extent
    return "<f4", shape, [draw.uniform(low, high) for _ in range(count)]


def labels(*y):
    return "<i4", (len(y),), list(y)


def it_says_what_is_there():
    for seed in range(6):
        draw = random.Random(seed)
        splits, classes = {}, draw.randint(2, 5)
        for split in ("train", "test"):
            count, width = draw.randint(classes, 40), draw.randint(1, 4)
            y = [*range(classes), *(draw.randrange(classes) for _ in range(count - classes))]
            splits[split] = ("|u1" if seed % 2 else "<f4", (count, width), [draw.randint(0, 255) for _ in range(count * width)]), labels(*y)
        said = told(write(splits["train"], splits["test"]))
        equal([split["split"] for split in said["splits"]], ["train", "test"])
        for split in said["splits"]:
            (kind, shape, x), (_, _, y) = splits[split["split"]]
            x = [value / 255 for value in x] if kind == "|u1" else x
            equal((split["examples"], split["shape"], split["type"]), (shape[0], [shape[1]], "uint8" if kind == "|u1" else "float32"))
            equal([one["examples"] for one in split["classes"]], [y.count(i) for i in range(classes)])
            mean = sum(x) / len(x)
            wanted = {"lowest": min(x), "highest": max(x), "mean": mean,
                      "deviation": (sum((value - mean) ** 2 for value in x) / len(x)) ** 0.5}
            for name, value in wanted.items():
                equal(abs(split["values"][name] - value) < 1e-4 * max(1, abs(value)), True, (seed, name, split["values"], value))


def each_split_has_its_name():
    """Of the three, those that there are; with --validation-split a part of the training split is the validation."""
    sizes = {"train": 8, "val": 6, "test": 4}
    for names in (("train",), ("train", "val"), ("train", "test"), ("train", "val", "test")):
        arrays = {}
        for name in names:
            arrays["x_" + name], arrays["y_" + name] = floats(sizes[name], 5), labels(*[0, 1] * (sizes[name] // 2))
        path = npz(os.path.join(FOLDER.name, "splits.npz"), arrays)
        found = {split["split"]: split["examples"] for split in told(path)["splits"]}
        equal(found, {{"val": "validation"}.get(name, name): sizes[name] for name in names})
        found = {split["split"]: split["examples"] for split in told(path, "--validation-split", "0.5")["splits"]}
        equal(found, {"train": 4, "validation": 4, **({"test": 4} if "test" in names else {})})


def hints_are_there_where_their_case_is():
    pair = labels(0, 1, 0, 1)
    fine = (floats(4, 5), pair)
    equal(hints(fine, fine), [])
    equal(hints((floats(4, 3, 8, 8), pair), (floats(4, 3, 8, 8), pair)), ["channels"])
    equal(hints((floats(4, 8, 8, 3), pair), (floats(4, 8, 8, 3), pair)), [])
    equal(hints((floats(4, 8, 8, 3, low=0, high=200), pair), (floats(4, 8, 8, 3), pair)), ["pixels"])
    equal(hints((("|u1", (4, 8, 8, 3), [9, 200] * 384), pair), fine), ["shape"])
    equal(hints((("<i4", (4, 2), [0, 1, 2, 3, 4, 5, 6, 7]), pair), (floats(4, 2), pair)), ["integers"])
    equal(hints((floats(4, 5, low=-500, high=500), pair), fine), ["large"])
    equal(hints((("<f4", (4, 5), [float("nan")] + [0.5, 0.25, 0.125, -1.0] * 4 + [0.5] * 3), pair), fine), ["odd"])
    equal(hints((("<f4", (4, 5), [0.5] * 20), pair), fine), ["constant"])
    equal(hints((floats(4, 5), labels(1, 2, 1, 2)), (floats(4, 5), labels(1, 2, 1, 2))), ["ones"])
    equal(hints((floats(4, 5), labels(0, 3, 0, 3)), (floats(4, 5), labels(0, 3, 0, 3))), ["missing"])
    equal(hints((floats(12, 5), labels(*[0] * 11, 1)), fine), ["unequal"])
    equal(hints((floats(4, 5), ("<f4", (4,), [-1, 1, 1, -1])), (floats(4, 5), ("<f4", (4,), [1, 1, 1, 1]))), ["signs"])
    equal(hints((floats(4, 5), ("<f4", (4,), [0, 1, 2, 1])), (floats(4, 5), ("<f4", (4,), [1, 1, 1, 1]))), ["classes"])
    equal(hints((floats(4, 5), ("<f4", (4,), [0.5, 1, 2, 1])), (floats(4, 5), ("<f4", (4,), [1, 1, 1, 1]))), [])
    equal(hints(fine), ["split"])
    equal(hints(fine, fine, options=("--batch-size", "5")), ["batch"])


def the_table_is_for_people():
    path = write((floats(12, 5), labels(*[0] * 11, 1)))
    done = lockstep("data", path, "--validation-split", "0.5", "--batch-size", "1")
    equal(done.returncode, 0, done.stderr)
    for part in (f"'{path}': numpy\n", "train: 6 examples of 2 classes\n", "  shape     (5) of float32\n", "\n1 "):
        contains(done.stdout.decode(), part)


def what_cannot_be_read_is_an_error():
    done = lockstep("data", "/nowhere")
    equal((done.returncode, done.stdout), (1, b""))
    contains(done.stderr.decode(), "/nowhere")
    done = lockstep("data", write((floats(4, 5), labels(-1, 1, 1, 1))))
    contains(done.stderr.decode(), "classes -1 and 1 as 0 and 1")
    for arguments in ((), ("digits", "shapes"), ("digits", "--samples", "0")):
        equal(lockstep("data", *arguments).returncode, 2)


main([it_says_what_is_there, each_split_has_its_name, hints_are_there_where_their_case_is, the_table_is_for_people, what_cannot_be_read_is_an_error])
