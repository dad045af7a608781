"""Outputs of each position: predict's three files hold all of them, and evaluate's report counts the positions that count."""
import array
import ast
import csv
import json
import math
import os
import random
import struct
import tempfile

from arrays import npz
from cli import contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
LETTERS, CONTEXT, EXAMPLES = "abcde", 6, 20


def path_of(name):
    return os.path.join(FOLDER.name, name)


def run(*arguments, status=0):
    done = lockstep(*arguments)
    equal(done.returncode, status, done.stderr.decode())
    return (done.stdout if status == 0 else done.stderr).decode()


def forget_note(path):
    """As a C program's model, which says its layers and not what lockstep train read."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    about = json.loads(header["__metadata__"]["about"])
    del about["note"]
    header["__metadata__"]["about"] = json.dumps(about)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data[8 + size:])


def train():
    """A model of a text, and arrays of its tokens of which some do not count."""
    draw = random.Random(os.getpid())
    with open(path_of("text"), "w", encoding="ascii") as file:
        file.write("".join(draw.choices(LETTERS, k=400)))
    run("train", "--model", "gpt", "--dataset", path_of("text"), "--tokens", "chars", "--context", str(CONTEXT), "--layers", "1", "--width", "8",
        "--heads", "2", "--epochs", "1", "--no-validation", "--verbose", "-1", "--save-each", path_of("w.safetensors"))
    forget_note(path_of("w.safetensors"))
    x = [draw.randrange(len(LETTERS)) for _ in range(EXAMPLES * CONTEXT)]
    y = [draw.choice((-1, draw.randrange(len(LETTERS)))) for _ in x]
    y[:2] = [-1, 3]
    npz(path_of("data.npz"), {"x_test": ("<i4", (EXAMPLES, CONTEXT), x), "y_test": ("<i4", (EXAMPLES, CONTEXT), y)})
    return y


def predict(name, *options):
    run("predict", "--model", path_of("w.safetensors"), "--dataset", path_of("data.npz"), "--output", path_of(name), *options)
    return path_of(name)


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    return ast.literal_eval(data[10:10 + size].decode())["shape"], array.array("f", data[10 + size:])


def softmax(row):
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def near(got, want):
    assert len(got) == len(want) and all(abs(a - b) < 1e-6 for a, b in zip(got, want)), (got, want)


def predict_keeps_the_last_axis():
    train()
    shape, raw = read_npy(predict("raw.npy", "--raw"))
    equal(shape, (EXAMPLES, CONTEXT, len(LETTERS)))
    rows = [softmax(raw[i:i + len(LETTERS)]) for i in range(0, len(raw), len(LETTERS))]
    equal(len(rows), EXAMPLES * CONTEXT)
    shape, values = read_npy(predict("p.npy"))
    equal(shape, (EXAMPLES, CONTEXT, len(LETTERS)))
    near(list(values), [value for row in rows for value in row])
    with open(predict("p.csv"), newline="", encoding="ascii") as file:
        head, *table = csv.reader(file)
    with open(predict("p.jsonl"), encoding="ascii") as file:
        lines = [json.loads(line) for line in file]
    equal(head, ["example", "position", "class", "name", "probability", *map(str, range(len(LETTERS)))])
    equal((len(table), len(lines)), (len(rows), len(rows)))
    for number, (row, cells, line) in enumerate(zip(rows, table, lines)):
        best = row.index(max(row))
        equal([int(cell) for cell in cells[:3]], [*divmod(number, CONTEXT), best])
        equal([line[name] for name in head[:3]], [*divmod(number, CONTEXT), best])
        near([float(cell) for cell in cells[4:]], [row[best], *row])
        near([line["probability"], *line["values"]], [row[best], *row])


def a_report_is_of_the_positions_that_count():
    labels = train()
    _, values = read_npy(predict("p.npy"))
    counts = [[0] * len(LETTERS) for _ in LETTERS]
    for number, label in enumerate(labels):
        row = values[number * len(LETTERS):][:len(LETTERS)]
        if label >= 0:
            counts[label][row.index(max(row))] += 1
    evaluate = ("evaluate", "--model", path_of("w.safetensors"), "--dataset", path_of("data.npz"))
    found = json.loads(run(*evaluate, "--report", "--json"))
    equal(found["report"]["confusion"], counts)
    right = sum(counts[i][i] for i in range(len(LETTERS)))
    assert abs(found["accuracy"] - right / sum(map(sum, counts))) < 1e-6, (found, counts)
    npz(path_of("data.npz"), {"x_test": ("<i4", (2, CONTEXT), [0] * 2 * CONTEXT), "y_test": ("<i4", (2,), [0, 1])})
    contains(run(*evaluate, "--report", status=2), "position")


main([predict_keeps_the_last_axis, a_report_is_of_the_positions_that_count])
