"""Options from a file: --config and --print-config."""
import json
import os
import shutil
import tempfile

import cli
from cli import equal

FOLDER = tempfile.mkdtemp(prefix="lockstep-config-")
FEW = ("--limit", "20", "--no-validation", "--verbose", "-1", "--json")


def write(text):
    path = os.path.join(FOLDER, "options")
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return path


def faults_name_the_file_and_the_line():
    faults = [
        ("epoch: 3", 1, b"unknown option 'epoch'; is --epochs meant?"),
        ("# a comment\nbatch_size: 3", 2, b"unknown option 'batch_size'; is --batch-size meant?"),
        ("'epochs=3': 1", 1, b"unknown option 'epochs=3'"),
        ("help: true", 1, b"unknown option 'help'"),
        ("config: x", 1, b"option 'config' is for the command line alone"),
        ("print-config: true", 1, b"option 'print-config' is for the command line alone"),
        ("epochs: 1\nseed: 3\nepochs: 2", 3, b"option 'epochs' stands in line 1, too"),
        ("{epochs: 1, epochs: 2}", 1, b"option 'epochs' stands in line 1, too"),
        ("seed: 1\nepochs: few", 2, b"option '--epochs' needs a whole number from 1 to 1000000, not 'few'"),
        ("epochs: [1, 2]", 1, b"option 'epochs' needs a value, not a list or a mapping"),
        ("epochs: true", 1, b"option 'epochs' needs a value, not true"),
        ("hidden:\n  - 3\n  - {a: b}", 3, b"option 'hidden' needs a value, not a list or a mapping"),
        ("hidden: []", 1, b"option 'hidden' has an empty list"),
        ("csv:", 1, b"option 'csv' needs a value, not nothing"),
        ('csv: "a\\0b"', 1, b"option 'csv' needs a value, not a text with a zero byte"),
        ("json: yes", 1, b"option 'json' needs true or false"),
        ("json: 'true'", 1, b"option 'json' needs true or false"),
        ("epochs: &a 3", 1, b"anchors (&), aliases (*) and tags (!) are not read"),
        ("epochs: !!int 3", 1, b"anchors (&), aliases (*) and tags (!) are not read"),
        ("optimizer: adamx", 1, b"--optimizer 'adamx' is none of sgd"),
        ("seed: 1\ncsv-append: true", 2, b"option '--csv-append' needs '--csv FILE'"),
        ("epochs", 1, b"a line is NAME: VALUE"),
        ("[epochs, 3]", 1, b"a line is NAME: VALUE"),
        ("? [a]\n: 3", 1, b"here the name of an option is needed"),
        ("epochs: 1\n---\nepochs: 2", 2, b"a second document begins"),
        ("seed: 1\nepochs: 1: 2", 2, b"this is no YAML: "),
        (b"seed: 1\nepochs: \xff", 2, b"this is no YAML: "),
    ]
    for text, line, message in faults:
        path = write(text)
        done = cli.lockstep("train", "--config", path)
        equal((done.returncode, done.stdout), (2, b""), text)
        cli.contains(done.stderr, b"lockstep train: %s:%d: " % (path.encode(), line))
        cli.contains(done.stderr, message)
        equal(done.stderr.count(b"\n"), 1, text)
    for path, message in ((FOLDER + "/none", b"No such file"), (FOLDER, b"Is a directory"), ("", b"'--config' needs a file")):
        done = cli.lockstep("train", "--config", path)
        equal(done.returncode, 2, path)
        cli.contains(done.stderr, message)
    cli.contains(cli.lockstep("train", "--config", write("a" * (1 << 20) + ": 1")).stderr, b"is longer than 1048576 bytes")


def the_command_line_wins():
    path = write('{"epochs": 3, "hidden": [16, 8], "seed": 7, "cache": false}')
    env = cli.environment(LOCKSTEP_LOG="error")
    plain = cli.lockstep("train", *FEW, "--epochs", "2", "--hidden", "16,8", "--seed", "7", env=env)
    done = cli.lockstep("train", *FEW, "--epochs", "2", "--config", path, env=env)
    equal((done.returncode, done.stderr), (0, b""))
    sha = [json.loads(one.stdout)["weights_sha256"] for one in (plain, done)]
    equal(sha[0], sha[1])
    equal(cli.lockstep("train", "--config", write("# nothing")).returncode, cli.lockstep("train").returncode)


def it_prints_what_it_reads():
    text = 'hidden: "16,8"\nseed: 7\nepochs: 2\nlearning-rate: 1e-3\ncsv: "a \\"b\\" ü\\n"\nauto-shard: "off"\njson: true\n'
    options = ["--json", "--seed", "1", "--csv", 'a "b" ü\n', "--hidden=16,8", "--learning-rate", "1e-3", "--seed=7"]
    words = ["--epochs", "2", "--division", "tensorflow", "--auto-shard", "OFF"]
    done = cli.lockstep("train", *options, *words, "--print-config")
    equal(done.returncode, 0, done.stderr)
    equal(done.stdout.decode(), text.replace("auto", 'division: "tensorflow"\nauto').replace("off", "OFF"))
    again = cli.lockstep("train", "--print-config", "--config", write(done.stdout))
    equal((again.returncode, again.stderr, again.stdout), (0, b"", done.stdout))
    cli.contains(cli.lockstep("train", "--csv", b"\xff", "--print-config").stderr, b"a value that is no UTF-8")
    equal(cli.lockstep("train", "--print-config").stdout, b"{}\n")


def other_commands_read_one():
    weights = FOLDER + "/weights.npz"
    equal(cli.lockstep("train", *FEW, "--epochs", "1", "--save-each", weights).returncode, 0)
    path = write(f"weights: {weights}\nlimit: 10\njson: true")
    done = cli.lockstep("evaluate", "--config", path)
    equal((done.returncode, json.loads(done.stdout)["examples"]), (0, 10), done.stderr)
    path = write(f"weights: {weights}\noutput: {FOLDER}/rows.csv")
    equal(cli.lockstep("predict", "--config", path, "--limit", "4").returncode, 0)
    with open(FOLDER + "/rows.csv", encoding="ascii") as file:
        equal(len(file.readlines()), 5)
    done = cli.lockstep("run", "--config", write("np: 2\nno-prefix: true\nexport: [A=1, B=2]"), "-x", "C=3", "--", "sh", "-c", "echo $A$B$C")
    equal((done.returncode, done.stdout), (0, b"123\n123\n"), done.stderr)


try:
    cli.main([faults_name_the_file_and_the_line, the_command_line_wins, it_prints_what_it_reads, other_commands_read_one])
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
