#!/usr/bin/env python3
"""The state of the process is its parent's: locale, time zone, umask, closed descriptors, signals, limits, processors, folder,
variables. Whatever it is, the command writes the same files, byte by byte but for times and modes, and is stopped as always.

Each state alone, and some at once, with LOCKSTEP_TEST_FULL; else some that the seed draws, at once. LOCKSTEP names the command."""
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "end_to_end"))
import events  # noqa: E402
from cluster import LIMIT, LOCKSTEP, SEED, free_ports, newest_step  # noqa: E402

ROOT = tempfile.mkdtemp(prefix="lockstep-environment-")
unittest.addModuleCleanup(shutil.rmtree, ROOT, ignore_errors=True)
COMMAND = os.path.abspath(LOCKSTEP)
SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
PASSED = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS")
PLAIN = {name: os.environ[name] for name in PASSED if name in os.environ}
PLAIN.update(HOME=ROOT, TERM="dumb", TZ="UTC", LC_ALL="C", OMP_NUM_THREADS="1")


def make_locale():
    """A locale with a decimal comma: the machine needs none. What a program does that sets it, property/locale tests."""
    source = os.path.join(ROOT, "source")
    with open(source, "w", encoding="ascii") as file:
        file.write('LC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3;3\nEND LC_NUMERIC\n')
    subprocess.run(["localedef", "--quiet", "--force", "-i", source, os.path.join(ROOT, "de_DE")], stderr=subprocess.DEVNULL, check=False)
    return {"LOCPATH": ROOT, "LC_ALL": "de_DE"}


class State:
    """What a process is started with: variables (None: it has none), a function between fork and exec, a folder's name."""

    def __init__(self, variables=None, before=None, folder="a", closed=()):
        self.variables, self.before, self.folder, self.closed = variables or {}, before, folder, closed

    def environment(self, more):
        merged = {**PLAIN, **more, **self.variables}
        return {name: value for name, value in merged.items() if value is not None}

    def enter(self):
        if self.before:
            self.before()
        for fd in self.closed:
            os.close(fd)


def ignore(*numbers):
    return lambda: [signal.signal(number, signal.SIG_IGN) for number in numbers]


# by what they change: one of each line may be there at once
STATES = {
    "locale": [State(make_locale())],
    "zone": [State({"TZ": zone}) for zone in ("Asia/Kathmandu", "XXX-5:45", "", "nowhere")],
    "umask": [State(before=lambda mask=mask: os.umask(mask)) for mask in (0o077, 0o000, 0o027)],
    "closed": [State(closed=closed) for closed in ((0,), (1,), (2,), (1, 2), (0, 1, 2))],
    "signals": [State(before=ignore(signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM)), State(before=ignore(*SIGNALS)),
                State(before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS))],
    "limit": [State(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))],
    "processors": [State(before=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]))],
    "folder": [State(folder=name) for name in ("x" * 200 + "/" + "y" * 200, " a 'b' \"c\" %d %s $(d) \\e", "\udcff\u00e4\n*", "-n")],
    "variables": [State({"HOME": None, "TERM": None}), State({"HOME": "/nowhere", "TERM": "x" * 300, "COLUMNS": "-3"}),
                  State(dict.fromkeys(PLAIN)), State({"PATH": ""})],
}


def together(states):
    """All of them at once."""
    befores = [state.before for state in states if state.before]
    merged = State(before=lambda: [before() for before in befores], folder=next((s.folder for s in states if s.folder != "a"), "a"),
                   closed=next((s.closed for s in states if s.closed), ()))
    for state in states:
        merged.variables.update({name: value for name, value in state.variables.items() if name not in merged.variables})
    return merged


def draw_state(draw):
    """Half of the lines at least, so that a fault of one is met soon."""
    return together([draw.choice(STATES[line]) for line in sorted(STATES) if draw.random() < 0.7])


# ---- what is run ----

TRAIN = ("--model", "mlp", "--hidden", "8", "--limit", "64", "--batch-size", "32", "--augment", "brightness=0.125", "--optimizer", "adam",
         "--label-smoothing", "0.1", "--data-workers", "1")
ALL = ("--validation-split", "0.25", "--save-best", "best.safetensors", "--save-each", "w-{epoch:02d}-{loss:.3f}.npz", "--csv", "log.csv",
       "--csv-append", "--tensorboard", "board", "--checkpoint", "saved", "--checkpoint-retain", "--trace", "trace.json", "--json")
SAVED = ("--weights", "best.safetensors", "--dataset", "digits", "--limit", "20")
METRICS = {"LOCKSTEP_METRICS_FILE": "metrics.prom"}


def first_commands(draw):
    return [(("train", *TRAIN, *ALL, "--epochs", "2"), METRICS),
            (("predict", *SAVED, "--output", draw.choice(["said.csv", "said.jsonl", "said.npy"])), {}),
            (("evaluate", *SAVED, "--report", "--json"), {}),
            (("convert", "--dataset", "digits", "--limit", "20", "--to", draw.choice(["npz", "tfrecord", "png", "jpeg"]), "--output", "converted"), {}),
            (("convert", "best.safetensors", "weights.npz"), {}),
            (("plot", "log.csv", "--output", "curves.svg"), {}),
            (("run", "-np", "2", "--", "lockstep", "train", *TRAIN, "--epochs", "1", "--no-validation", "--save-each", "two.npz", "--json"), {})]


def second_commands():
    """The training goes on from what another state has left."""
    return [(("train", *TRAIN, *ALL, "--epochs", "3"), METRICS)]


def run(state, folder, commands, number):
    for i, (command, more) in enumerate(commands, number):
        names = [os.path.join(folder, "%d.%s" % (i, stream)) for stream in ("out", "err")]
        with open(names[0], "wb") as out, open(names[1], "wb") as err:
            done = subprocess.run([COMMAND, *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=2 * LIMIT,
                                  env=state.environment({"LOCKSTEP_LOG_FORMAT": "json", **more}), preexec_fn=state.enter, check=False)
        if done.returncode:
            with open(names[1], encoding="utf-8", errors="replace") as said:
                raise AssertionError("exit status %d of %s: %s" % (done.returncode, command, said.read()[-2000:]))


# ---- what is compared ----

TIMES = re.compile(rb'"time": "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", |\d+s - \d+[mu]?s/step - \d+ examples/s( - \d+s left)?'
                   rb'|(?<="samples_per_second": )[-+.e\d]+|measured for \d+ ms: [^"]*')


def essence(path):
    """Of a file: all of it but times, and what is drawn for each training."""
    name = os.path.basename(path)
    if name.startswith("events."):
        return [(event.tag, event.step, event.plugin, event.value) for event in events.events(path) if "per_second" not in event.tag]
    with open(path, "rb") as file:
        data = file.read()
    if name.startswith("checkpoint-"):
        size, = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + size])
        header["__metadata__"].pop("run")
        first, last = header["lockstep.sha256"]["data_offsets"]
        return header, data[8 + size:8 + size + first] + data[8 + size + last:]
    if name == "trace.json":
        return sorted({event["name"] for event in json.loads(data)["traceEvents"]})
    if name == "metrics.prom":  # how often a step took how long, too
        return [re.sub(rb"(?<=[ }])[-+.e\d]+$", b"", line) for line in data.splitlines()]
    if name[-4:] in (".out", ".err"):
        return sorted(line for line in TIMES.sub(b"", data).splitlines() if b"raise the limit (ulimit -n)" not in line)
    return data


def contents(folder):
    """{name: essence} of all that is in a folder, and the modes that its files and folders lack of 0666 and 0777."""
    found, lacked = {}, set()
    for at, folders, files in os.walk(folder):
        lacked.update(0o777 & ~stat.S_IMODE(os.stat(os.path.join(at, name)).st_mode) & 0o666 for name in folders)
        for name in files:
            path = os.path.join(at, name)
            mark = re.sub(r"tfevents\.\d+\..*", "tfevents", os.path.relpath(path, folder))
            found.setdefault(mark, []).append(essence(path))
            lacked.add(0o666 & ~stat.S_IMODE(os.stat(path).st_mode))
    return {name: sorted(each, key=repr) for name, each in found.items()}, lacked


def unheard(closed):
    """The endings of what nobody hears of such a state."""
    return tuple(name for fd, name in ((1, ".out"), (2, ".err")) if fd in closed)


def mask_of(state):
    """The umask of a process in that state."""
    return int(subprocess.run([sys.executable, "-c", "import os; print(os.umask(0))"], stdout=subprocess.PIPE, check=True,
                              preexec_fn=state.before).stdout)


class Environment(unittest.TestCase):
    def make(self, state):
        folder = os.path.join(tempfile.mkdtemp(dir=ROOT), state.folder)
        mask = os.umask(mask_of(state))
        os.makedirs(folder)
        os.umask(mask)
        return folder

    def compare(self, plain, other, closed):
        want, _ = contents(plain)
        got, _ = contents(other)
        for name in [name for name in {*want, *got} if name.endswith(unheard(closed))]:
            want.pop(name, None), got.pop(name, None)
        self.assertEqual(sorted(got), sorted(want))
        for name in want:
            self.assertEqual(got[name], want[name], name)

    def try_state(self, state, draw):
        plain, folders = State(), [self.make(State()), self.make(state)]
        commands = first_commands(draw)
        run(plain, folders[0], commands, 0)
        run(state, folders[1], commands, 0)
        self.compare(*folders, state.closed)
        written = [path for path in os.listdir(folders[1]) if path[-4:] not in (".out", ".err")]
        for name in written:
            mode = stat.S_IMODE(os.stat(os.path.join(folders[1], name)).st_mode)
            whole = 0o777 if os.path.isdir(os.path.join(folders[1], name)) else 0o666
            self.assertEqual(oct(mode), oct(whole & ~mask_of(state)), name)
        run(state, folders[0], second_commands(), len(commands))  # they change places
        run(plain, folders[1], second_commands(), len(commands))
        self.compare(*folders, state.closed)
        for folder in folders:
            shutil.rmtree(folder)

    def test_files_are_the_same_in_any_state(self):
        draw = random.Random(SEED)
        if SEED:
            cases = [("drawn by %s" % SEED, draw_state(draw))]
        else:
            cases = [("%s %d" % (line, i), state) for line, states in STATES.items() for i, state in enumerate(states)]
            cases += [("some at once, %d" % i, draw_state(draw)) for i in range(6)]
        for name, state in cases:
            with self.subTest(name):
                self.try_state(state, draw)

    def start(self, command, before=None, **more):
        task = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env={**PLAIN, **more.pop("variables", {})}, preexec_fn=before, **more)
        self.addCleanup(task.stderr.close)
        self.addCleanup(task.kill)
        return task

    def wait_until(self, happened, task):
        end = time.monotonic() + LIMIT
        while not happened():
            self.assertIsNone(task.poll(), "it has ended")
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_stop_that_the_parent_has_blocked_stops(self):
        """With the step saved, as always."""
        for launcher in ((), ("run", "-np", "2", "--", COMMAND)):
            folder = tempfile.mkdtemp(dir=ROOT)
            task = self.start([COMMAND, *launcher, "train", *TRAIN, "--epochs", "1000000", "--checkpoint", folder, "--no-validation", "--verbose", "-1"],
                              lambda: signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS))
            self.wait_until(lambda: newest_step(folder) > 0, task)
            task.terminate()
            self.assertEqual(task.wait(LIMIT), 143)
            self.assertIn("asked", task.stderr.read())

    def test_a_program_with_closed_streams_prints_into_no_socket(self):
        """The library opens them, where the program has not."""
        port, other = free_ports(2)
        config = {"cluster": {"worker": ["127.0.0.1:%d" % number for number in (port, other)]}, "task": {"type": "worker", "index": 0}}
        task = self.start([os.path.abspath(os.environ["PROGRAM"]), "strategy=workers"], lambda: [os.close(fd) for fd in range(3)],
                          variables={"TF_CONFIG": json.dumps(config)})

        def listens():
            with socket.socket() as caller:
                return caller.connect_ex(("127.0.0.1", port)) == 0
        self.wait_until(listens, task)
        self.assertEqual([os.readlink("/proc/%d/fd/%d" % (task.pid, fd)) for fd in range(3)], ["/dev/null"] * 3)


if __name__ == "__main__":
    unittest.main()
