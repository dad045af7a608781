"""lockstep plot: an SVG's paths are the logs' numbers, the terminal's lines fit in 80 columns, a timeline's page holds its spans."""
import json
import math
import os
import random
import re
import tempfile
import time
import xml.etree.ElementTree as ElementTree

from cli import PACE, contains, environment, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
SVG = "{http://www.w3.org/2000/svg}"


def path_of(name):
    return os.path.join(FOLDER.name, name)


def write(name, text):
    with open(path_of(name), "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path_of(name)


def run(*arguments, status=0, **variables):
    done = lockstep(*arguments, env=environment(**variables))
    equal(done.returncode, status, done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def curves(path):
    """Each path of the picture as the points of its strokes, in pixels."""
    found = []
    for one in ElementTree.parse(path).getroot().iter(SVG + "path"):
        if one.get("d") is None or re.fullmatch(r"M\d+ [\d.]+h22", one.get("d")):
            continue  # of the legend
        found.append([[tuple(map(float, point.split())) for point in stroke.replace("h0", "").split("L")]
                      for stroke in one.get("d").split("M")[1:]])
    return found


def table(columns, separator=","):
    return "".join(separator.join(row) + "\n" for row in [list(columns), *zip(*columns.values())])


def strokes(x, y):
    """Points that follow each other: a gap, or an epoch that is no later, ends a stroke."""
    out, before = [], None
    for i, (a, b) in enumerate(zip(x, y)):
        if not math.isfinite(b):
            before = None
            continue
        if before is None or not a > before:
            out.append([])
        out[-1].append((a, b))
        before = a
    return out


def scaled(all_strokes, points):
    """Each stroke's points as shares of the ranges of all."""
    xs = [x for one in points for x, _ in one]
    ys = [y for one in points for _, y in one]

    def share(value, among):
        low, high = min(among), max(among)
        return (value - low) / (high - low) if high > low else 0.5
    return [[(share(x, xs), share(y, ys)) for x, y in one] for one in all_strokes]


def a_picture_has_the_numbers_of_the_logs():
    for seed in range(8):
        draw = random.Random(seed)
        rows = draw.randint(2, 30)
        columns = {"epoch": [str(i % draw.choice([rows, rows, 4])) for i in range(rows)]}
        for name in draw.sample(["loss", "val_loss", "accuracy", "a<b&c"], draw.randint(1, 4)):
            columns[name] = [draw.choice([f"{draw.uniform(-2, 5) * 10 ** draw.randint(-3, 3):.9g}"] * 9 + ["nan", ""]) for _ in range(rows)]
        log, out = write("log.csv", table(columns, draw.choice(",;\t"))), path_of("curves.svg")
        run("plot", log, "--output", out)
        drawn = curves(out)
        equal(len(drawn), len(columns) - 1, seed)
        names = [name for name in columns if name != "epoch"]
        panels = list(dict.fromkeys(name.removeprefix("val_") for name in names))
        order = [name for panel in panels for name in names if name.removeprefix("val_") == panel]
        x = [float(cell) for cell in columns["epoch"]]
        for panel in panels:
            mine = [name for name in order if name.removeprefix("val_") == panel]
            want = {name: strokes(x, [float(cell or "nan") for cell in columns[name]]) for name in mine}
            got = {name: drawn[order.index(name)] for name in mine}
            equal({name: [len(one) for one in want[name]] for name in mine}, {name: [len(one) for one in got[name]] for name in mine}, seed)
            everything = [one for name in mine for one in want[name]]
            pixels = [one for name in mine for one in got[name]]
            if len({b for one in everything for _, b in one}) < 2 or len({a for one in everything for a, _ in one}) < 2:
                continue
            for one, other in zip(scaled(everything, everything), scaled(pixels, pixels)):
                for (a, b), (c, d) in zip(one, other):
                    equal(abs(a - c) < 1e-3 and abs(b - (1 - d)) < 1e-3, True, (seed, panel, (a, b), (c, d)))


def logs_of_several_trainings_are_one_picture():
    logs = [write(f"{name}.csv", table({"epoch": list("012"), "loss": list("321"), "val_loss": list("432"), "accuracy": list("012")}))
            for name in ("first", "second")]
    run("plot", *logs, "--metric", "loss,val_loss", "--output", path_of("both.svg"))
    equal(len(curves(path_of("both.svg"))), 4)
    text = "".join(ElementTree.parse(path_of("both.svg")).getroot().itertext())
    for log in logs:
        contains(text, f"{os.path.basename(log)} val_loss")
    equal("accuracy" in text, False)
    os.makedirs(path_of("other"), exist_ok=True)
    same = write("other/first.csv", "epoch,loss\n0,1\n")
    contains(run("plot", logs[0], same)[0], f"{same} loss\n")


def the_terminal_has_80_columns():
    columns = {"epoch": [str(i) for i in range(40)], "loss": [f"{1 / (i + 1):.6g}" for i in range(40)],
               "val_loss": [f"{1.1 / (i + 1) + 0.01 * i:.6g}" for i in range(40)], "accuracy": ["nan"] * 40}
    log = write("terminal.csv", table(columns))
    plain, _ = run("plot", log, LANG="C")
    equal(plain.isascii(), True)
    braille, _ = run("plot", log, LANG="C.UTF-8")
    equal(any("\u2800" < c < "\u2900" for c in braille), True, braille)
    equal(run("plot", "--ascii", log, LANG="C.UTF-8")[0], plain)
    for text in (plain, braille):
        equal(max(map(len, text.splitlines())) <= 80, True, text)
        equal("\x1b" in text, False)
        contains(text, "a loss\n")
        contains(text, "b val_loss\n")
        contains(text, "accuracy\n")
    rows = [line.split("|")[1].rstrip() for line in plain.splitlines() if "|" in line]
    equal(rows[0][0], "b")  # the largest at the left
    equal(rows[13][-1], "a")  # the smallest at the right


def what_a_training_writes_is_drawn():
    log, trace = path_of("train.csv"), path_of("trace.json")
    run("train", "--limit", "128", "--epochs", "2", "--no-validation", "--hidden", "4", "--verbose", "-1", "--csv", log, "--trace", trace)
    contains(run("plot", log)[0], "accuracy\n")
    run("plot", trace, "--output", path_of("trace.html"))
    with open(path_of("trace.html"), encoding="utf-8") as file:
        page = file.read()
    for part in ("src=", "href=", "http"):
        equal(part in page, False, part)
    rows = json.loads(page.split("const rows = ", 1)[1].split(";\nconst canvas", 1)[0])
    with open(trace, encoding="utf-8") as file:
        spans = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    begun = min(span["ts"] for span in spans)
    want = sorted((span["name"], round((span["ts"] - begun) * 1000, -2), round(span["dur"] * 1000, -2)) for span in spans)
    got = sorted((span[0], round(span[1], -2), round(span[2], -2)) for row in rows for span in row["spans"])
    equal(len(got), len(want))
    for one, other in zip(got, want):
        equal(one[0] == other[0] and abs(one[1] - other[1]) <= 200 and abs(one[2] - other[2]) <= 200, True, (one, other))


def a_name_in_a_timeline_cannot_end_the_script():
    event = {"name": "</script><b>", "ph": "X", "pid": 0, "tid": 0, "ts": 5, "dur": 1, "args": {"</script>": "</script>"}}
    text = json.dumps({"traceEvents": [event], "baseTimeNanoseconds": 1735689600000000000,
                       "otherData": {"lockstep": "0.1.0", "rank": 0, "workers": 1, "clock": ""}})
    run("plot", write("tag.json", text), "--output", path_of("tag.html"))
    with open(path_of("tag.html"), encoding="utf-8") as file:
        page = file.read()
    equal(page.count("</script>"), 1)
    rows = json.loads(page.split("const rows = ", 1)[1].split(";\nconst canvas", 1)[0])
    equal(rows[0]["spans"], [[event["name"], 0, 1000, event["args"]]])


def a_long_timeline_takes_seconds():
    threads, spans = 4, 40000
    events = [{"name": "span", "ph": "X", "pid": 0, "tid": tid, "ts": 3 * i, "dur": 2, "args": {}} for tid in range(threads) for i in range(spans)]
    text = json.dumps({"traceEvents": events, "baseTimeNanoseconds": 1735689600000000000,
                       "otherData": {"lockstep": "0.1.0", "rank": 0, "workers": 1, "clock": ""}})
    path, begun = write("long.json", text), time.monotonic()
    run("plot", path, "--output", path_of("long.html"))
    equal(time.monotonic() - begun < 20 * PACE, True, time.monotonic() - begun)
    with open(path_of("long.html"), encoding="utf-8") as file:
        rows = json.loads(file.read().split("const rows = ", 1)[1].split(";\nconst canvas", 1)[0])
    equal([len(row["spans"]) for row in rows], threads * [spans])


def each_fault_is_one_error():
    good = write("good.csv", "epoch,loss\n0,1\n1,0.5\n2,")
    contains(run("plot", good, "--ascii")[0], "a loss\n")
    equal(run("plot", write("torn.csv", "epoch,loss,accuracy\n0,1,0\n1,0.5,0\n2"))[1], "")
    for text, status, part in (("epoch,loss\n0,1\n1\n2,3\n", 1, "line 3: it has 1 cells"), ("epoch,loss\n0,x\n", 1, "line 2: 'x' is no number"),
                               ("0,1\n1,2\n", 2, "line 1: '0' is no name"), ("", 2, "is empty"), ("epoch\n0\n", 2, "no column beside 'epoch'")):
        contains(run("plot", write("bad.csv", text), status=status)[1], part)
    contains(run("plot", good, "--metric", "loss,f1", status=2)[1], "metric 'f1' is no column")
    contains(run("plot", path_of("none.csv"), status=2)[1], "none.csv")
    for arguments, part in (((), "no file is given"), ((good, "--output", "x.png"), "ends with .svg"), (("x.json",), "needs --output"),
                            (("x.json", good), "one kind at a time"), (("x.json", "--output", "x.svg"), "ends with .html"),
                            (("x.json", "--output", "x.html", "--metric", "loss"), "'--metric' is of logs")):
        contains(run("plot", *arguments, status=2)[1], part)
    contains(run("plot", write("bad.json", "[]"), "--output", path_of("bad.html"), status=2)[1], "bad.json")


def any_bytes_are_a_picture_or_one_error():
    cells = ["epoch", "loss", "val_loss", "", "nan", "1", "-2.5", "1e308", "-1e308", "1e-320", "1e16", "10000000000000002", '"', "\n", ",", ";", "\0", "\u00e9"]
    for seed in range(40):
        draw = random.Random(seed)
        head = "epoch,loss,val_loss\n" if draw.random() < 0.8 else ""
        rows = ["".join(draw.choice(cells) for _ in range(draw.randint(0, 5))) if draw.random() < 0.2 else
                ",".join(draw.choice(cells[3:12]) for _ in range(3)) for _ in range(draw.randint(0, 8))]
        log = write("any.csv", head + "\n".join(rows))
        for more in ((), ("--output", path_of("any.svg"))):
            done = lockstep("plot", log, *more, env=environment())
            equal((done.returncode in (0, 1, 2), done.stderr.count(b"error: ")), (True, int(done.returncode != 0)), (seed, done.stderr))
        if not done.returncode:
            ElementTree.parse(path_of("any.svg"))


main([a_picture_has_the_numbers_of_the_logs, logs_of_several_trainings_are_one_picture, the_terminal_has_80_columns,
      what_a_training_writes_is_drawn, a_name_in_a_timeline_cannot_end_the_script, a_long_timeline_takes_seconds,
      each_fault_is_one_error, any_bytes_are_a_picture_or_one_error])
