"""lockstep top on terminals: its table fits any width, has bars of the locale, and of many workers those that the others wait
for. The workers are sockets that answer as workers do. And training's progress line, which wraps on no terminal."""
import fcntl
import os
import pty
import re
import selectors
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import unicodedata

from cli import LIMIT, LOCKSTEP, contains, environment, equal, main

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from cluster import drawn  # noqa: E402


class Workers:
    """So many, of which inside(rank) is the share of the time in collectives; stuck: ranks in one collective all the time."""

    def __init__(self, count, inside, stuck=(), silent=()):
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.addresses = ["127.0.0.1:%d" % one.getsockname()[1] for one in self.sockets]
        self.inside, self.stuck, self.silent, self.begun = inside, stuck, silent, time.monotonic_ns() - 60 * 10 ** 9
        self.selector = selectors.DefaultSelector()
        for rank, one in enumerate(self.sockets):
            self.selector.register(one, selectors.EVENT_READ, rank)
        threading.Thread(target=self.answer_all, daemon=True).start()

    def answer_all(self):
        while True:
            for key, _ in self.selector.select():
                with key.fileobj.accept()[0] as peer:
                    peer.settimeout(LIMIT)
                    if key.data not in self.silent and peer.recv(8) == b"LSPROBE\n":
                        peer.sendall(self.answer(key.data))

    def answer(self, rank):
        now = time.monotonic_ns()
        fields = {"lockstep": 1, "task": f"worker:{rank}", "phase": "training", "generation": 1, "step": 123456, "now": now,
                  "started": self.begun, "since": self.begun if rank in self.stuck else 0, "collectives": 10 ** 12, "bytes": 10 ** 15,
                  "inside": 0 if rank in self.stuck else int((now - self.begun) * self.inside(rank)), "resident": 10 ** 11, "restarts": 7}
        lines = [f"{name}={value}" for name, value in fields.items()]
        lines += [f"cluster.worker[{i}]={address}" for i, address in enumerate(self.addresses)]
        return "\n".join([*lines, "end=1", ""]).encode()


def on_terminal(columns, rows, *command, **variables):
    """What the command prints on a terminal of that size."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    task = subprocess.Popen([LOCKSTEP, *command], env=environment(**variables), stdout=slave, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    os.close(slave)
    text = b""
    while True:
        try:
            text += os.read(master, 65536)
        except OSError:  # the other side is closed
            break
    os.close(master)
    equal(task.wait(LIMIT), 0, task.stderr.read())
    task.stderr.close()
    return text.decode().replace("\r\n", "\n")


def cells(line):
    """How wide it is."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def ask(workers, columns, rows=50, *options, lang="C.UTF-8"):
    text = on_terminal(columns, rows, "top", "--once", "--interval", "0.2", *options, workers.addresses[0], LC_ALL=lang)
    for line in text.splitlines():
        assert cells(line) <= columns, (columns, line)
    return text


def of_ranks(text):
    return {int(found[1]): found[0] for found in re.finditer(r"(?m)^ *(\d+) +worker:\d+ .*$", text)}


def bars_show_who_waits():
    workers = Workers(3, lambda rank: 0.25 + 0.25 * rank)
    text = ask(workers, 80)
    contains(text, "\u2588 compute  \u2592 wire  \u2591 wait")
    contains(text, "straggler: rank 0, for which others wait 50% of the time")
    for rank, line in of_ranks(text).items():
        bar = "".join(c for c in line if c in "\u2588\u2592\u2591")
        assert len(bar) >= 20 and bar == "".join(sorted(bar, key="\u2588\u2592\u2591".index)), line
        for mark, share in (("\u2588", 0.75 - 0.25 * rank), ("\u2592", 0.25), ("\u2591", 0.25 * rank)):
            assert abs(bar.count(mark) / len(bar) - share) < 0.12, (line, mark, share)
    for text in (ask(workers, 80, lang="C"), ask(workers, 80, 50, "--ascii")):
        contains(text, "# compute  = wire  . wait")
        assert text.isascii() and re.search(r"#{15,}={5,}", of_ranks(text)[0]), text


def any_width_will_do():
    """From that of rank, task and a short bar on."""
    workers = Workers(3, lambda rank: rank / 4, stuck=(1,), silent=(2,))
    wider = 0
    for columns in (34, *drawn((*range(35, 44), 80, *range(81, 200, 13)), "widths of top", 5), 200):
        text = ask(workers, columns)
        contains(text, "rank task")
        contains(" ".join(text.split()), "in one collective since")
        contains(" ".join(text.split()), "straggler: rank 0, for which others wait")
        contains(text, "worker:2")
    for columns in (40, 80, 120, 160):
        titles = ask(workers, columns).splitlines()[1].split()
        assert len(titles) > wider, titles
        wider = len(titles)
    equal(titles, "rank task state step ms/step compute wait wire calls bytes rate memory up restarts".split())


def sixty_four_workers():
    workers = Workers(64, lambda rank: 0.1 if rank == 40 else 0.5 + rank / 200)
    for columns in (40, 80):
        text = ask(workers, columns)
        equal(sorted(of_ranks(text)), list(range(64)))
        contains(" ".join(text.split()), "straggler: rank 40, for which others wait")


def a_low_terminal_gets_those_that_the_others_wait_for():
    """It goes on there, until it is ended."""
    workers = Workers(64, lambda rank: 0.1 if rank == 40 else 0.5 + rank / 200)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    task = subprocess.Popen([LOCKSTEP, "top", "--interval", "0.2", workers.addresses[0]], env=environment(), stdout=slave)
    text = b""
    while text.count(b"\x1b[H") < 2:
        text += os.read(master, 65536)
    task.kill()
    task.wait()
    for each in (slave, master):
        os.close(each)
    screen = text.split(b"\x1b[H\x1b[J")[1].decode().replace("\r\n", "\n")  # what comes behind it may end within a character
    assert len(screen.splitlines()) < 24, screen
    ranks = sorted(of_ranks(screen))
    equal(ranks, [*range(len(ranks) - 1), 40])
    contains(screen, f"{64 - len(ranks)} more that wait longer")


def the_progress_line_wraps_nowhere():
    """At any width; the last line of an epoch is folded, and all its numbers are there."""
    for columns in (1, *drawn((2, 5, *range(10, 130, 9), 200), "widths of the progress line", 3), 80):
        text = on_terminal(columns, 24, "train", "--hidden", "64,64", "--limit", "6400", "--batch-size", "8", "--epochs", "2", "--metrics",
                           "top_k=3", "--no-validation")
        plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", text)
        lines = [part for line in plain.split("\n") for part in line.split("\r") if not line.startswith("Epoch ")]
        assert len(lines) > 3, (columns, text)
        for part in lines:
            assert cells(part) < max(columns, 2), (columns, part)
        last = "".join(plain.split("\r")[-1].split())
        for name in ("examples/s", "loss:0.", "accuracy:0.", "top_k_categorical_accuracy:0."):
            contains(last, name)


main([bars_show_who_waits, any_width_will_do, sixty_four_workers, a_low_terminal_gets_those_that_the_others_wait_for,
      the_progress_line_wraps_nowhere])
