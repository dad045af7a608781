"""lockstep run: output by whole lines, byte for byte, whatever the workers do."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

import cli

# Python: the worker's own index as index, its raw output as say.
PROLOGUE = ("import json, os, sys, time\n"
            "index = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
            "def say(data, fd=1):\n"
            "    while data: data = data[os.write(fd, data):]\n")


def python(count, program, *options, **kwargs):
    return cli.lockstep("run", "-np", str(count), *options, "--", sys.executable, "-c", PROLOGUE + program, **kwargs)


def prefixes_and_streams():
    done = python(2, "say(b'out\\n'); say(b'err\\n', 2)")
    cli.equal(sorted(done.stdout.splitlines()), [b"[0] out", b"[1] out"])
    cli.equal(sorted(done.stderr.splitlines()), [b"[0] err", b"[1] err"])


def no_prefix():
    done = python(2, "say(b'out\\n')", "--no-prefix")
    cli.equal(done.stdout, b"out\nout\n")


def pieces_of_a_line_are_put_together():
    done = python(3, "for i in range(20):\n  say(b'%d' % index); time.sleep(0.005)\nsay(b'\\n')")
    cli.equal(sorted(done.stdout.splitlines()), [b"[%d] " % rank + b"%d" % rank * 20 for rank in range(3)])


def unfinished_line_is_completed():
    done = python(1, "say(b'one\\ntwo')")
    cli.equal(done.stdout, b"[0] one\n[0] two\n")


def empty_lines_are_kept():
    done = python(1, "say(b'\\n\\na\\n\\n')")
    cli.equal(done.stdout, b"[0] \n[0] \n[0] a\n[0] \n")


def progress_bars_survive():
    done = python(1, "for i in range(3):\n  say(b'bar %d\\r' % i); time.sleep(0.05)\nsay(b'\\nend\\n')")
    cli.equal(done.stdout, b"[0] bar 0\r[0] bar 1\r[0] bar 2\r\n[0] end\n")
    done = python(1, "for i in range(3):\n  say(b'\\rbar %d' % i); time.sleep(0.05)\nsay(b'\\nend\\n')")
    cli.equal(done.stdout, b"[0] bar 0\r[0] bar 1\r[0] bar 2\n[0] end\n")


def carriage_return_and_newline_are_one_end():
    done = python(1, "say(b'a\\r\\nb\\r'); time.sleep(0.1); say(b'\\nc\\n')")
    cli.equal(done.stdout, b"[0] a\r\n[0] b\r\n[0] c\n")


def mixed_ends_from_many_workers_stay_whole():
    program = ("for i in range(300):\n"
               "  say(b'worker %d line %d' % (index, i)); say([b'\\n', b'\\r', b'\\r\\n'][i % 3])\n")
    done = python(8, program)
    cli.equal((done.returncode, done.stderr), (0, b""))
    lines = {rank: [] for rank in range(8)}
    for line in done.stdout.replace(b"\r", b"\n").split(b"\n"):
        if line:
            rank, text = line.split(b" ", 1)
            lines[int(rank.strip(b"[]"))].append(text)
    for rank in range(8):
        cli.equal(lines[rank], [b"worker %d line %d" % (rank, i) for i in range(300)], rank)


def bytes_pass_unread():
    done = python(1, "say(bytes(b for b in range(256) if b not in (10, 13)) + b'\\n')")
    cli.equal(done.stdout, b"[0] " + bytes(b for b in range(256) if b not in (10, 13)) + b"\n")


def characters_split_between_writes_survive():
    done = python(1, "for b in 'žluťoučký 步調'.encode():\n  say(bytes([b])); time.sleep(0.002)")
    cli.equal(done.stdout.decode(), "[0] žluťoučký 步調\n")


def large_lines_come_whole():
    done = python(4, "say(bytes([97 + index]) * 500000 + b'\\n')")
    cli.equal(sorted(done.stdout.splitlines()), [b"[%d] " % rank + bytes([97 + rank]) * 500000 for rank in range(4)])


def endless_lines_are_broken_between_characters():
    done = python(1, "for i in range(50): say('é'.encode() * 50000)\nsay(b'x')")
    lines = done.stdout.decode().splitlines()
    assert 2 < len(lines) < 10, len(lines)
    assert all(line.startswith("[0] ") for line in lines)
    cli.equal("".join(line[4:] for line in lines), "é" * 2500000 + "x")


def endless_lines_need_bounded_memory():
    program = "for i in range(1500): say(b'x' * 100000)"
    launcher = cli.start("run", "-np", "2", "--", sys.executable, "-c", PROLOGUE + program)
    size, peak = 0, 0
    while chunk := launcher.stdout.read(1 << 20):
        size += len(chunk)
        with open(f"/proc/{launcher.pid}/status", encoding="ascii") as file:
            peak = max([peak] + [int(line.split()[1]) for line in file if line.startswith("VmHWM")])
    cli.equal(cli.finish(launcher)[0], 0)
    assert size > 300000000, size
    assert peak < 200000, f"{peak} KiB"  # most of it is the libraries (and a sanitizer's own)


def a_slow_reader_slows_the_workers_and_signals_still_pass():
    program = "try:\n  while True: say(b'y' * 1000 + b'\\n')\nfinally:\n  pass"
    launcher = cli.start("run", "-np", "2", "--", sys.executable, "-c", PROLOGUE + program)
    time.sleep(0.7)
    with open(f"/proc/{launcher.pid}/status", encoding="ascii") as file:
        resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    assert resident < 200000, f"{resident} KiB"
    launcher.terminate()
    status, out, _ = cli.finish(launcher)
    cli.equal(status, 143)
    assert all(line[:4] in (b"[0] ", b"[1] ") and len(line) == 1004 for line in out.splitlines()[:-2])


def a_stuck_reader_of_one_stream_holds_no_other():
    """Nor the news that a worker has ended."""
    program = "if index == 0:\n  while True: say(b'y' * 1000 + b'\\n')\ntime.sleep(0.7)\nsay(b'still here\\n', 2)\nsys.exit(3)"
    launcher = cli.start("run", "-np", "2", "--grace", "0.1", "--", sys.executable, "-c", PROLOGUE + program)
    cli.equal(launcher.stderr.readline(), b"[1] still here\n")
    cli.contains(launcher.stderr.readline(), b"worker:1 (rank 1, pid ")
    status, out, _ = cli.finish(launcher)
    cli.equal(status, 3)
    assert all(len(line) == 1004 for line in out.splitlines()[:-2])


def a_reader_that_leaves_ends_the_workers():
    script = f"{cli.LOCKSTEP} run -np 2 -- yes 2>/dev/null | head -n 3"
    done = subprocess.run(["bash", "-c", script + "; echo ${PIPESTATUS[0]}"], stdout=subprocess.PIPE, timeout=cli.LIMIT,
                          env=cli.environment(), check=True)
    lines = done.stdout.splitlines()
    cli.equal((len(lines), lines[-1]), (4, b"141"))


def closed_output_is_no_obstacle():
    script = f"{cli.LOCKSTEP} run -np 2 -- sh -c 'echo out; echo err >&2' >&-"
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=cli.LIMIT,
                          env=cli.environment(), check=False)
    cli.equal(sorted(done.stderr.splitlines()), [b"[0] err", b"[1] err"])


def last_words_come_before_the_verdict():
    done = python(2, "if index == 1: say(b'my last words\\n', 2); os._exit(9)")
    cli.equal(done.returncode, 9)
    lines = done.stderr.splitlines()
    assert lines[0] == b"[1] my last words" and lines[1].startswith(b"lockstep run: worker:1"), lines


def a_stranger_that_keeps_the_pipe_open_does_not_hold_the_end():
    begin = time.monotonic()
    done = python(1, "import subprocess\nsay(b'done\\n')\nsubprocess.Popen(['sleep', '60'], start_new_session=True)")
    cli.equal((done.returncode, done.stdout), (0, b"[0] done\n"))
    assert time.monotonic() - begin < 20 * cli.PACE


def read_terminal(master, files=()):
    """All that is written there. Once it has a part, the file of that part is made."""
    text = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other side is closed
            return text
        if not chunk:
            return text
        text += chunk
        for part, path in files:
            if part in text:
                open(path, "w", encoding="ascii").close()


def a_bar_on_a_terminal_keeps_its_line():
    master, terminal = pty.openpty()
    folder = tempfile.TemporaryDirectory()
    files = [(part, os.path.join(folder.name, part.decode())) for part in (b"50", b"news", b"99")]
    program = (f"def wait(part):\n  while not os.path.exists(os.path.join('{folder.name}', part)): time.sleep(0.01)\n"
               "if index == 0: say(b'bar 50%\\r'); wait('news'); say(b'bar 99%\\r')\n"
               "else: wait('50'); say(b'news\\n')\n"
               "wait('99')\n")
    process = subprocess.Popen([cli.LOCKSTEP, "run", "-np", "2", "--", sys.executable, "-c", PROLOGUE + program],
                               stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=cli.environment())
    os.close(terminal)
    text = read_terminal(master, files).replace(b"\r\n", b"\n")
    os.close(master)
    cli.equal(process.wait(timeout=cli.LIMIT), 0)
    folder.cleanup()
    cli.contains(text, b"[0] bar 50%\r\n[1] news\n[0] bar 99%\r")


def cells(line):
    """How many columns the line takes."""
    return len(re.sub(r"\x1b\[[0-9]*[mK]", "", line).rstrip("\r\n"))


def train_on_terminal(columns, *before, options=("--no-validation",), **variables):
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [cli.LOCKSTEP, *before, "train", "--limit", "1200", "--epochs", "3", "--batch-size", "6", *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL,
                               env=cli.environment(**variables))
    os.close(terminal)
    text = read_terminal(master).decode().replace("\r\n", "\n")
    cli.equal(process.wait(timeout=cli.LIMIT), 0)
    return text


def the_bar_of_training_is_redrawn_in_place():
    """Rank 0's, through the launcher as without it, no wider than the terminal; an epoch's last one is folded, and stays."""
    for before, prefix in (((), ""), (("run", "-np", "2", "--", "lockstep"), "[0] ")):
        for columns in (200, 60, 12):
            text = train_on_terminal(columns, *before)
            bars = [part for line in text.split("\n") for part in line.split("\r") if "\u2501" in part or "/200" in part]
            updates = [bar for bar in bars if "ETA" in bar or columns == 12]
            assert updates, text
            assert all(bar.startswith(prefix) for bar in bars), text
            if columns > 12:
                assert all(cells(bar) < columns for bar in updates), (columns, updates)
                assert all(cells(line) < columns for line in text.replace("\r", "\n").split("\n")), (columns, text)
            bars_end = text.rindex("\n", 0, -1) if columns > 40 else len(text)  # the curve's line follows
            last = [epoch.split("\r")[-1].replace(prefix, "") for epoch in text[:bars_end].split("Epoch")[1:]]
            assert len(last) == 3 and all(bar.startswith("200/200") for bar in last), last
            last = ["".join(re.sub(r"\x1b\[[0-9]*[mK]", "", bar).split()) for bar in last]
            assert all(re.search(r"loss:[012]\.", bar) and re.search(r"\dexamples/s", bar) for bar in last), last
            assert all(re.search(r"\d+sleft", bar) for bar in last[:2]) and "left" not in last[2], last
            if columns == 200:
                cli.equal(text.count("\n"), 7, text)  # three epochs, three bars, and the curve
    cli.equal(train_on_terminal(200, "run", "-np", "1", "--no-prefix", "--", "lockstep").count("\n"), 7)


def a_training_ends_with_its_curve():
    """A cell an epoch, of blocks or of letters, as many curves as there is room for."""
    for marks, locale in (("\u2588\u2581-\u2587", "C.UTF-8"), ("'_.-", "C")):  # the highest first, and the lowest
        one = rf"loss {marks[0]}[{marks}]{marks[1]} \d\.\d+ to \d\.\d+"
        for columns, line in ((100, f"{one} - val_{one}"), (40, one), (20, None))[:3 if locale == "C" else 1]:
            before = ("run", "-np", "2", "--no-prefix", "--", "lockstep") if columns == 40 else ()
            said = train_on_terminal(columns, *before, options=("--validation-split", "0.1"), LC_ALL=locale).rstrip("\n").split("\n")[-1]
            assert re.fullmatch(line, said) and len(said) < columns if line else " to " not in said, (columns, said)
    assert "loss _" not in train_on_terminal(100, options=("--no-validation", "--verbose", "-1"), LC_ALL="C")
    done = cli.lockstep("train", "--limit", "60", "--epochs", "2", "--no-validation")
    cli.equal(len(done.stdout.splitlines()), 4, done.stdout)  # a file has the numbers


def json_lines_stay_parsable():
    done = python(4, "say((json.dumps({'rank': index, 'text': 'a\\\\rb'}) + '\\n').encode())")
    for line in done.stdout.splitlines():
        cli.equal(json.loads(line[4:])["rank"], int(line[1:2]))


cli.main([prefixes_and_streams, no_prefix, pieces_of_a_line_are_put_together, unfinished_line_is_completed,
          empty_lines_are_kept, progress_bars_survive, carriage_return_and_newline_are_one_end,
          mixed_ends_from_many_workers_stay_whole, bytes_pass_unread, characters_split_between_writes_survive,
          large_lines_come_whole, endless_lines_are_broken_between_characters, endless_lines_need_bounded_memory,
          a_slow_reader_slows_the_workers_and_signals_still_pass, a_stuck_reader_of_one_stream_holds_no_other, a_reader_that_leaves_ends_the_workers,
          closed_output_is_no_obstacle, last_words_come_before_the_verdict,
          a_stranger_that_keeps_the_pipe_open_does_not_hold_the_end, a_bar_on_a_terminal_keeps_its_line, the_bar_of_training_is_redrawn_in_place, a_training_ends_with_its_curve,
          json_lines_stay_parsable])
