"""CSV files as data: random tables in random dress are read as Python reads them, the training's scaling is kept with its
weights, and each fault is one error that names the place."""
import csv
import gzip
import json
import math
import os
import random
import struct
import tempfile
import zipfile

from cli import LOCKSTEP, contains, environment, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
ROWS = 60


def path_of(name):
    return os.path.join(FOLDER.name, name)


def write(name, text, encoding="utf-8"):
    with open(path_of(name), "wb") as file:
        file.write(text.encode(encoding))
    return path_of(name)


def run(*arguments, status=0):
    done = lockstep(*arguments)
    equal(done.returncode, status, done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def arrays(path):
    """The float32 and integer arrays of an .npz."""
    found = {}
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            data = file.read(name)
            length = struct.unpack("<H", data[8:10])[0]
            head = eval(data[10:10 + length])  # as the format has it
            kind = {"<f4": "f", "<i4": "i", "<i8": "q"}[head["descr"]]
            body = data[10 + length:]
            found[name[:-4]] = head["shape"], struct.unpack(f"<{len(body) // struct.calcsize('<' + kind)}{kind}", body)
    return found


def drawn(draw):
    """A table as names and rows of text, columns of numbers and words."""
    words = ["red", "blue", 'a "quote"', "x,y;z", "two\nlines", "\u00e4\u20ac", "w" * 60]
    columns = []
    for i in range(draw.randint(1, 4)):
        if draw.random() < 0.5:
            columns.append([f"{draw.uniform(-1, 1) * 10 ** draw.randint(-3, 6):.6g}" for _ in range(ROWS)])
        else:
            some = draw.sample(words, draw.randint(1, len(words)))
            columns.append([draw.choice(some) for _ in range(ROWS)])
    targets = {"words": [draw.choice(["no", "yes", "perhaps"]) for _ in range(ROWS)], "numbers": [f"{draw.random():.4f}" for _ in range(ROWS)],
               "whole": [str(i % 3) for i in range(ROWS)], "from one": [str(1 + i % 3) for i in range(ROWS)]}
    kind = draw.choice(sorted(targets))
    names = [f"{chr(97 + i)} {draw.choice(words)}" for i in range(len(columns))]
    place = draw.randint(0, len(columns))
    columns.insert(place, targets[kind])
    names.insert(place, "target")
    return kind, names, list(zip(*columns))


def dressed(draw, names, rows):
    """The same as CSV: with any separator, line end, quoting, blank lines, byte order mark."""
    separator, end = draw.choice(",;\t"), draw.choice(["\n", "\r\n", "\r"])
    text = "\ufeff" if draw.random() < 0.5 else ""
    for row in [names, *rows]:
        cells = []
        for cell in row:
            quoted = draw.random() < 0.3 or any(c in cell for c in '",;\t\n') or cell != cell.strip()
            cells.append('"' + cell.replace('"', '""') + '"' if quoted else cell if draw.random() < 0.9 else f" {cell} ")
        text += separator.join(cells) + end + (end if draw.random() < 0.05 else "")
    return text


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def features(names, rows, train):
    """One list of floats a row, by mean and deviation of the rows that train."""
    out = [[] for _ in rows]
    for i, name in enumerate(names):
        if name == "target":
            continue
        cells = [row[i] for row in rows]
        if all(map(is_number, cells)):
            seen = [float(cells[r]) for r in train]
            mean = math.fsum(seen) / len(seen)
            deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in seen) / len(seen)) or 1
            for row, cell in zip(out, cells):
                row.append((float(cell) - mean) / deviation)
        else:
            kinds = sorted(set(cells), key=lambda word: word.encode())
            for row, cell in zip(out, cells):
                row.extend(float(cell == kind) for kind in kinds)
    return out


def close(got, want):
    return all(abs(a - b) < 1e-4 * max(1, abs(b)) for a, b in zip(got, want, strict=True))


def tables_are_read_as_python_reads_them():
    for seed in range(12):
        draw = random.Random(seed)
        kind, names, rows = drawn(draw)
        path, out = write("drawn.csv", dressed(draw, names, rows)), path_of(f"drawn{seed}")
        _, err = run("convert", "--dataset", path, "--target", "target", "--to", "npz", "--output", out)
        read = arrays(os.path.join(out, "train.npz"))
        width = len(features(names, rows, range(ROWS))[0])
        equal(read["x_train"][0], (ROWS, width), (seed, err))
        want = [value for row in features(names, rows, range(ROWS)) for value in row]
        equal(close(read["x_train"][1], want), True, (seed, names))
        cells = [row[names.index("target")] for row in rows]
        if kind in ("words", "whole"):
            equal(read["y_train"][1], tuple(sorted(set(cells)).index(cell) for cell in cells), seed)
        else:
            equal(close(read["y_train"][1], list(map(float, cells))), True, seed)


def the_training_part_alone_scales():
    draw = random.Random(3)
    rows = [(f"{i}.5", f"{draw.uniform(0, 1000):.3f}", draw.choice("xy")) for i in range(40)]
    path, out = write("parts.csv", dressed(draw, ["number", "b", "target"], rows)), path_of("parts")
    run("convert", "--dataset", path, "--target", "target", "--validation-split", "0.25", "--to", "npz", "--output", out)
    read = {**arrays(os.path.join(out, "train.npz")), **arrays(os.path.join(out, "test.npz"))}
    count = read["x_train"][0][0]
    for column in (0, 1):
        values = read["x_train"][1][column::2]
        mean = math.fsum(values) / count
        equal(abs(mean) < 1e-5 and abs(math.fsum(value ** 2 for value in values) / count - 1) < 1e-4, True, mean)
    equal(count + read["x_test"][0][0], 40)


def a_file_is_the_training_split_alone():
    """Nothing is validated with the rows that it is trained with."""
    path = write("one.csv", "number,target\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(12)))
    _, err = run("train", "--dataset", path, "--target", "target", "--hidden", "4", "--epochs", "1", status=1)
    contains(err, f"'{path}' is the training split, and has no validation split")
    contains(err, "--validation-split")
    for split in ("validation", "test"):
        _, err = run("convert", "--dataset", path, "--target", "target", "--split", split, "--to", "npz", "--output", path_of("none"), status=1)
        contains(err, f"has no {split} split")
    out, _ = run("convert", "--dataset", path, "--target", "target", "--to", "npz", "--output", path_of("alone"))
    equal(out, "train: 12 examples\ntest: none\n")


def a_model_keeps_its_table():
    draw = random.Random(5)
    rows = [(f"{draw.uniform(0, 9):.3f}", draw.choice(["red", "blue"]), draw.choice(["yes", "no"])) for _ in range(ROWS)]
    path, weights = write("train.csv", dressed(draw, ["size", "colour", "answer"], rows)), path_of("model.safetensors")
    run("train", "--dataset", path, "--target", "answer", "--validation-split", "0.25", "--epochs", "1", "--hidden", "4", "--batch-size", "8",
        "--verbose", "-1", "--save-best", weights)
    options = ("--weights", weights, "--output")

    def predict(*arguments):
        run("predict", *options, path_of("out.csv"), *arguments)
        with open(path_of("out.csv"), newline="") as file:
            return list(csv.reader(file))

    whole = predict("--dataset", path)
    equal(whole[0], ["example", "class", "name", "probability", "0", "1"])
    equal(predict(path), whole)
    equal({row[2] for row in whole[1:]} <= {"yes", "no"}, True)
    moved = write("moved.csv", dressed(draw, ["x", "colour", "size"], [(str(i), row[1], row[0]) for i, row in enumerate(rows)]))
    equal(predict(moved), whole)  # columns in another order, one more, and no target
    one = write("one.csv", f"size,colour\n{rows[7][0]},{rows[7][1]}\n")
    equal([float(cell) for cell in predict(one)[1][3:]], [float(cell) for cell in whole[8][3:]])
    out, _ = run("evaluate", "--weights", weights, "--dataset", path, "--json")
    equal(json.loads(out)["examples"], ROWS)
    for name, text, part in (("no_size", "colour\nred\n", "it has no column 'size'"),
                             ("green", "size,colour\n1,red\n2,green\n", "line 3, column 'colour': 'green' is none of the training's 2: blue, red"),
                             ("word", "size,colour\nbig,red\n", "line 2, column 'size': 'big' is no number")):
        _, err = run("predict", *options, path_of("out.csv"), write(name + ".csv", text), status=2)
        contains(err, part)
    contains(run("evaluate", "--weights", weights, "--dataset", one, status=2)[1], "it has no column 'answer', which is the target")


def put_folder(name, **files):
    """A folder of CSV files: stem to text; gzipped where the stem ends in _gz."""
    os.makedirs(path_of(name))
    for stem, text in files.items():
        packed = stem.endswith("_gz")
        with (gzip.open if packed else open)(os.path.join(path_of(name), stem.replace("_gz", "") + (".csv.gz" if packed else ".csv")), "wt") as file:
            file.write(text)
    return path_of(name)


def rows_of(draw, count, shift=0):
    return "size,colour,answer\n" + "".join(f"{draw.uniform(0, 9) + shift:.3f},{draw.choice(['red', 'blue'])},{'yn'[i % 2]}\n" for i in range(count))


def a_folder_has_its_splits():
    """Test and validation rows become what train.csv says, packed or not."""
    draw = random.Random(8)
    texts = {"train": rows_of(draw, 20), "val": rows_of(draw, 6, 100), "test": rows_of(draw, 8, 200)}
    folder, packed = put_folder("splits", **texts), put_folder("packed", **{stem + "_gz": text for stem, text in texts.items()})
    whole = write("whole.csv", texts["train"] + "".join(text.partition("\n")[2] for text in texts.values() if text != texts["train"]))
    for name in (folder, packed):
        out, _ = run("convert", "--dataset", name, "--target", "answer", "--to", "npz", "--output", name + "-npz")
        equal(out, "train: 20 examples\nvalidation: 6 examples\ntest: 8 examples\n")
    rows = list(csv.reader(texts["train"].splitlines()))[1:]
    sizes = [float(row[0]) for row in rows]
    mean = math.fsum(sizes) / len(sizes)
    deviation = math.sqrt(math.fsum((size - mean) ** 2 for size in sizes) / len(sizes))
    for split in ("train", "val", "test"):
        stem = {"val": "validation"}.get(split, split)
        read, again = (arrays(os.path.join(name + "-npz", stem + ".npz")) for name in (folder, packed))
        equal(read, again)
        want = [(float(row[0]) - mean) / deviation for row in csv.reader(texts[split].splitlines()[1:])]
        equal(close(read[f"x_{stem}"][1][::3], want), True, split)
    said = json.loads(run("data", folder, "--target", "answer", "--json")[0])
    equal([(split["split"], split["examples"]) for split in said["splits"]], [("train", 20), ("validation", 6), ("test", 8)])
    out, _ = run("train", "--dataset", packed, "--target", "answer", "--hidden", "4", "--epochs", "1", "--limit", "10", "--json", "--verbose", "-1",
                 "--save-best", path_of("splits.safetensors"))
    mine = json.loads(out)["val_loss"]
    out, _ = run("evaluate", "--weights", path_of("splits.safetensors"), "--dataset", folder, "--split", "validation", "--json")
    equal((json.loads(out)["examples"], json.loads(out)["loss"]), (6, mine))  # by the ten rows' scaling
    with open(whole, "rb") as file, gzip.open(path_of("whole.csv.gz"), "wb") as packed:
        packed.write(file.read())
    with open(path_of("whole.csv.gz"), "rb") as file:
        torn = file.read()[:-20]
    with open(path_of("torn.csv.gz"), "wb") as file:
        file.write(torn)
    contains(run("data", path_of("torn.csv.gz"), "--target", "answer", status=1)[1], "torn.csv.gz")
    one, other = (json.loads(run("data", path, "--target", "answer", "--json")[0])["transform"] for path in (whole, whole + ".gz"))
    equal(one, other)


def a_folder_says_what_it_lacks():
    draw = random.Random(9)
    no_target = "size,colour\n" + "".join(f"{i},red\n" for i in range(4))
    kaggle = put_folder("kaggle", train=rows_of(draw, 20), test=no_target, sample_submission="id,answer\n1,y\n")
    options = ("--dataset", kaggle, "--target", "answer", "--hidden", "4", "--epochs", "1", "--verbose", "-1")
    contains(run("train", *options, status=2)[1], "test.csv': it has no column 'answer', which is the target")
    run("train", *options, "--validation-split", "0.2", "--save-best", path_of("kaggle.safetensors"))
    run("predict", "--weights", path_of("kaggle.safetensors"), "--dataset", kaggle, "--output", path_of("kaggle_out.csv"))
    with open(path_of("kaggle_out.csv")) as file:
        equal(len(file.readlines()), 5)
    contains(run("data", kaggle, "--target", "answer")[0], "test: 4 examples")
    contains(run("train", "--dataset", kaggle, status=2)[1], "no target is named (--target)")
    alone = put_folder("single", training=rows_of(draw, 20))
    contains(run("train", "--dataset", alone, *options[2:], status=1)[1], "has no validation.csv")
    contains(run("train", "--dataset", put_folder("none", test=rows_of(draw, 4)), *options[2:], status=1)[1], "has no train.csv")
    contains(run("data", put_folder("two", train=rows_of(draw, 4), training_gz=rows_of(draw, 4)), status=2)[1], "has both train.csv and training.csv.gz")


def new_rows_go_on_with_the_table_of_the_weights():
    draw = random.Random(10)
    first, second = write("first.csv", rows_of(draw, 40)), write("second.csv", rows_of(draw, 40, 500))
    weights, newer = path_of("first.safetensors"), path_of("second.safetensors")
    options = ("--hidden", "4", "--epochs", "1", "--verbose", "-1", "--validation-split", "0.25", "--json")

    def scaling(path):
        with open(path, "rb") as file:
            data = file.read()
        header = json.loads(data[8:8 + struct.unpack_from("<Q", data)[0]])
        return json.loads(header["__metadata__"]["about"])["transform"]

    run("train", "--dataset", first, "--target", "answer", *options, "--save-best", weights)
    out, _ = run("train", "--dataset", second, "--weights", weights, *options, "--save-best", newer)
    equal(scaling(newer), scaling(weights))
    plans = [json.loads(run("plan", "--dataset", path, *more, "--hidden", "4", "--json")[0])
             for path, *more in ((second, "--weights", weights), (first, "--target", "answer"))]
    equal(plans[0]["parameters"], plans[1]["parameters"])
    # the same numbers as evaluate, which has the weights' table
    evaluated, _ = run("evaluate", "--weights", newer, "--dataset", second, "--validation-split", "0.25", "--json")
    equal(json.loads(evaluated)["loss"], json.loads(out)["val_loss"])
    for name, text, more, part in (
            ("other", "size,shade,answer\n1,red,y\n2,blue,n\n", (), "it has no column 'colour', with which the model was trained; its columns are size, shade, answer"),
            ("unanswered", "size,colour\n1,red\n2,blue\n", (), "it has no column 'answer', which is the target"),
            ("third", "size,colour,answer\n1,red,perhaps\n2,blue,n\n", (), "'perhaps' is none of the training's 2: n, y"),
            ("fine", "size,colour,answer\n1,red,y\n2,blue,n\n", ("--target", "size"), "target is 'size', and the model was trained for 'answer'"),
            ("fine", "size,colour,answer\n1,red,y\n2,blue,n\n", ("--without", "colour"), "column 'colour' is left out, and the model was trained with it"),
            ("fine", "size,colour,answer\n1,red,y\n2,blue,n\n", ("--target", "answer", "--target-type", "number"), "target_type is numbers, and the model was trained with 'answer' as classes")):
        _, err = run("train", "--dataset", write(name + ".csv", text), "--weights", weights, *options, *more, status=2)
        contains(err, part)
        equal(err.count("INVALID_ARGUMENT"), 1, err)
    contains(run("train", "--dataset", second, "--weights", weights, *options[:-3], status=1)[1], "has no validation split")
    # each of several workers reads the file by itself
    train = ("train", "--dataset", second, "--weights", weights, "--batch-size", "8", *options)
    two, _ = run("run", "-np", "2", "--", LOCKSTEP, *train)
    equal(*(json.loads(text[text.rindex("{"):])["weights_sha256"] for text in (two, run(*train, "--devices", "2")[0])))
    # an evaluator has the checkpoint's table
    kept = ("--checkpoint", path_of("kept"), "--checkpoint-retain")
    out, _ = run("train", "--dataset", second, "--target", "answer", "--weights", weights, *options, *kept)
    task = {"cluster": {"chief": ["127.0.0.1:1"], "evaluator": ["127.0.0.1:2"]}, "task": {"type": "evaluator", "index": 0}}
    done = lockstep("train", "--dataset", second, "--target", "answer", "--weights", weights, *options, *kept, "--watch-timeout", "0.1",
                    env=environment(TF_CONFIG=json.dumps(task)))
    equal((done.returncode, json.loads(done.stdout)["loss"]), (0, json.loads(out)["val_loss"]), done.stderr)
    run("convert", "--dataset", second, "--target", "answer", "--to", "npz", "--output", path_of("second_npz"))
    run("train", "--dataset", path_of("second_npz"), "--weights", weights, *options)  # numbers are numbers


def a_column_of_numbers_is_a_regression():
    path, weights = write("line.csv", "x,y\n" + "".join(f"{i},{i / 32 + 0.25}\n" for i in range(64))), path_of("line.safetensors")
    options = ("--dataset", path, "--hidden", "none", "--epochs", "60", "--batch-size", "8", "--verbose", "-1", "--validation-split", "0.25", "--json")
    out, _ = run("train", *options, "--target", "y", "--save-best", weights)
    equal(json.loads(out)["val_loss"] < 1e-3 and json.loads(out)["accuracy"] is None, True, out)
    run("predict", "--weights", weights, "--output", path_of("line_out.csv"), write("three.csv", "x\n0\n32\n63\n"))
    with open(path_of("line_out.csv"), newline="") as file:
        got = [float(row[1]) for row in list(csv.reader(file))[1:]]
    equal(all(abs(a - b) < 0.1 for a, b in zip(got, (0.25, 1.25, 2.2))), True, got)


FAULTS = (
    ("a,y\n1,2\n3\n", 1, "line 3: it has 1 cells, and the first row 2"),
    ("a,y\n1,2\n3,4,5\n", 1, "line 3: it has 3 cells, and the first row 2"),
    ('a,y\n1,2\n"3,4\n', 1, "line 3: a quote is opened and not closed"),
    ('a,y\n"1"2,3\n', 1, "line 2: text follows a closed quote"),
    ("a,y\n1,\0\n", 1, "line 2: it has a zero byte"),
    ("a,y\n1,2\n,3\n4,NA\n", 2, "2 cells are missing, the first in line 3, column 'a'"),
    ("a,a,y\n1,2,3\n", 2, "columns 1 and 2 are both named 'a'"),
    (",y\n1,2\n", 2, "column 1 has no name"),
    ("1,2\n3,x\n", 2, "it has no column 'y'"),
    ("a,b\n1,2\n", 2, "it has no column 'y', which is the target; its columns are a, b"),
    ("y\n1\n", 2, "no column beside the target"),
    ("", 2, "is empty"),
    ("a,y\n", 2, "holds no examples"),
    ("a;y\n1,5;1\n2,5;2\n", 2, "line 2, column 'a': a number has a comma"),
    ("a,y\n" + "".join(f"n{i},{i}\n" for i in range(60)), 2, "60 different words in 60 rows"),
    ("a,y\n" + "".join(f"{'x' if i == 5 else i % 4 + 0.5},{i}\n" for i in range(60)), 2, "line 7, column 'a': a word, one of 1 among 60 cells"),
)


def each_fault_is_one_error():
    for text, status, part in FAULTS:
        _, err = run("data", write("fault.csv", text), "--target", "y", status=status)
        contains(err, part)
        equal(err.count("error:"), 1, err)
    for name, text in (("latin", "a,y\n\u00e9,1\n".encode("latin-1")), ("wide", "a,y\n1,2\n".encode("utf-16"))):
        with open(path_of(name + ".csv"), "wb") as file:
            file.write(text)
        contains(run("data", path_of(name + ".csv"), "--target", "y", status=1)[1], "save the file as UTF-8")
    path = write("word.csv", "1,2\n3,x\n")
    contains(run("data", path, "--target", "1", status=2)[1], "line 2, column 2: a word, and the first row has numbers alone")
    path = write("fine.csv", "a,b,y\n1,2,3\n,5,6\n7,8,10\n")
    said = json.loads(run("data", path, "--target", "y", "--skip-damaged", "--json")[0])
    equal((said["splits"][0]["examples"], said["splits"][0]["damaged"]), (2, 1))
    equal([column["name"] for column in said["transform"]["columns"]], ["a", "b"])
    said = json.loads(run("data", path, "--target", "y", "--without", "a", "--json")[0])
    equal((said["splits"][0]["examples"], said["transform"]["columns"][0]["name"], said["transform"]["target"]), (3, "b", {"name": "y"}))
    contains(run("train", "--dataset", path, status=2)[1], "no target is named (--target); its columns are a, b, y")
    said = json.loads(run("data", path, "--skip-damaged", "--json")[0])
    equal(([column["name"] for column in said["transform"]["columns"]], said["splits"][0]["labels"]), (["a", "b", "y"], "none"))
    contains(said["hints"][0], "--target COLUMN")
    contains(run("data", path, "--target", "y", "--without", "c", status=2)[1], "no column 'c' to leave out")
    contains(run("data", "digits", "--target", "y", status=2)[1], "target is set, and is of CSV files")


main([tables_are_read_as_python_reads_them, the_training_part_alone_scales, a_file_is_the_training_split_alone, a_model_keeps_its_table, a_folder_has_its_splits,
      a_folder_says_what_it_lacks, new_rows_go_on_with_the_table_of_the_weights, a_column_of_numbers_is_a_regression, each_fault_is_one_error])
