"""A training whose workers are lost and started anew: what a supervisor does, and what the outcome must be."""
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
import cluster  # noqa: E402
from cluster import children_of, free_ports, shared_files  # noqa: E402

WORKER = os.environ.get("RECOVERY_WORKER", "build/tests/recovery/worker")
SANITIZED = bool(os.environ.get("LOCKSTEP_TEST_SANITIZED"))  # many times slower: a few of each kind run
SHARE = {"": 2, "thread": 16}.get(os.environ.get("LOCKSTEP_TEST_SANITIZED", ""), 8)


def some(cases):
    """Where scripts/test draws (cluster.drawn), half of a table of cases, and under a sanitizer one of eight, where threads are watched one of sixteen. At least one."""
    cases = list(cases)
    return cluster.drawn(cases, repr(cases), -(-len(cases) // SHARE))


def half(test):
    """Where scripts/test draws, half of the tests of this kind run, under a sanitizer too."""
    return unittest.skipIf(not cluster.drawn((True, False), test.__qualname__)[0], "not drawn")(test)


def few(test):
    """A handful of tests is enough where everything is slow; elsewhere half of them run, as half says."""
    return unittest.skipIf(SANITIZED, "a handful is enough where everything is slow")(half(test))


LIMIT = int((3 if SANITIZED else 1) * cluster.LIMIT)  # seconds that a job may take
POLL = 0.001
SETTINGS = {"OMP_NUM_THREADS": "1", "LOCKSTEP_FIRST_BUCKET": "64K", "LOCKSTEP_BUCKET": "64K",
            "LOCKSTEP_JOIN_TIMEOUT": str(LIMIT - 10), "LOCKSTEP_REJOIN_TIMEOUT": str(LIMIT - 10)}


def environment_of(changes):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_TEST_")}
    clean.pop("TF_CONFIG", None)
    return {**clean, **SETTINGS, **(changes or {})}


class Notes:
    """What a process writes of the points that it reaches (watch.h). Each line is read once, however often one looks."""

    def __init__(self, path):
        self.path, self.offset = path, 0
        self.names, self.points = [], {}  # in their order; of each the numbers of all its lines

    def read(self):
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return self
        with open(descriptor, "rb", buffering=0) as file:
            file.seek(self.offset)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.decode().splitlines():
            name, *numbers = line.split()
            self.names.append(name)
            self.points.setdefault(name, []).append([int(number) for number in numbers])
        return self


def is_stopped(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0] in "Tt"


class Life:
    """One process of a task."""

    def __init__(self, rank, command, environment, folder, name):
        self.rank, self.at = rank, environment.get("LOCKSTEP_TEST_AT", "")
        times_path = os.path.join(folder, name + ".times")
        self._notes = Notes(times_path)
        self.out_path, self.err_path = os.path.join(folder, name + ".out"), os.path.join(folder, name + ".err")
        self.started = time.monotonic_ns()
        with open(self.out_path, "w", encoding="utf-8") as out, open(self.err_path, "w", encoding="utf-8") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env=dict(environment, LOCKSTEP_TEST_TIMES=times_path))

    @property
    def status(self):
        """None while it runs."""
        return self.process.poll()

    def output(self):
        with open(self.out_path, encoding="utf-8") as out:
            return out.read()

    def errors(self):
        with open(self.err_path, encoding="utf-8") as err:
            return err.read()

    def last_error(self):
        return (self.errors().strip().splitlines() or [""])[-1]

    def result(self):
        return json.loads(self.output().strip().splitlines()[-1])

    def notes(self, point):
        """Of each time that it reached the point: nanoseconds, bytes, descriptors, threads."""
        return self._notes.read().points.get(point, [])

    def reached(self):
        """The names of all points that it reached, in their order."""
        return self._notes.read().names

    def is_stopped(self):
        return is_stopped(self.process.pid)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wake(self):
        self.process.send_signal(signal.SIGCONT)


class Job:
    """Tasks of one cluster, on localhost or on the hosts of a network (network.py). at: {rank: ["sums:3:KILL", ...]}, one
    for each life of the task in turn. Two jobs of three do not measure which algorithm is the fastest, unless that says
    more than the bits: between hosts, with servers and over links of one kind."""
    algorithms = itertools.cycle(("auto", "direct", "exchange"))

    def __init__(self, workers=3, options=(), environment=None, at=None, task_environment=None, restart=True,
                 program=WORKER, network=None, elastic=False, returns=False, servers=0):
        self.network = network
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-recovery-")
        self.command = [program, *options]
        self.environment = environment_of({**(network.environment if network else {}), **(environment or {})})
        if not (network or servers or "LOCKSTEP_TRANSPORT" in self.environment):
            self.environment.setdefault("LOCKSTEP_ALGORITHM", next(self.algorithms))
        self.cluster = {"worker": network.addresses if network else
                        ["127.0.0.1:%d" % port for port in free_ports(workers)]}
        if servers:
            self.cluster["ps"] = ["127.0.0.1:%d" % port for port in free_ports(servers)]
        self.task_environment = task_environment or (lambda rank: {})
        self.at = {rank: list(points) for rank, points in (at or {}).items()}
        self.restart, self.elastic, self.returns = restart, elastic, returns
        self.lives = {rank: [] for rank in range(workers)}
        self.late = []  # lives that came when all others had finished
        self.woken = []  # lives that were stopped for a while

    def config_of(self, role, index):
        return json.dumps({"cluster": self.cluster, "task": {"type": role, "index": index}})

    def point_of(self, task, life):
        """Where that life of a rank, or of "ps:0", is hurt; "": nowhere."""
        points = self.at.get(task, [])
        return points[life] if life < len(points) else ""

    def start(self, rank, command=None, environment=None):
        number = len(self.lives[rank])
        own = dict(self.environment, TF_CONFIG=self.config_of("worker", rank), **self.task_environment(rank), **(environment or {}))
        own["LOCKSTEP_TEST_AT"] = self.point_of(rank, number)
        command = command or self.command
        if self.network:
            command = self.network.enter(rank, command)
        life = Life(rank, command, own, self.folder.name, "%d.%d" % (rank, number))
        self.lives[rank].append(life)
        return life

    def start_all(self):
        for rank in self.lives:
            self.start(rank)
        return self

    def now(self):
        return [lives[-1] for lives in self.lives.values()]

    def _is_lost(self, life):
        return life.status == -signal.SIGKILL and self.restart and life not in self.late

    def _may_be_late(self, life):
        """The others may have ended without it: they had all met at the end, or are elastic and go on without it."""
        lives = self.lives[life.rank]
        return len(lives) > 1 and not life.notes("entered") and (self.elastic or bool(lives[-2].notes("exit")))

    def _end_late(self):
        """A task whose process was killed when the others needed it no more is started anew for nobody."""
        running = [life for life in self.now() if life.status is None]
        alone = running and len(running) < len(self.lives) and \
            all(life.status == 0 for life in self.now() if life not in running)
        if not alone or not all(self._may_be_late(life) for life in running):
            return
        self.late += running
        for life in running:
            life.kill()

    def finish(self, hooks=(), limit=LIMIT):
        """Starts whoever was killed anew until all have ended; hooks are called all the time. Past the limit all are
        killed and what they said is the error."""
        deadline = time.monotonic() + limit
        try:
            while True:
                for hook in hooks:
                    hook(self)
                for life in filter(self._is_lost, self.now()):
                    self.start(life.rank)
                self._end_late()
                if not [life for life in self.now() if life.status is None or self._is_lost(life)]:
                    return self
                if time.monotonic() > deadline:
                    raise AssertionError("it hangs:\n" + self.describe())
                time.sleep(POLL)
        finally:
            self.end()

    def end(self):
        for lives in self.lives.values():
            for life in lives:
                if life.status is None:
                    life.kill()

    def describe(self):
        parts = ["-- LOCKSTEP_ALGORITHM=%s" % self.environment.get("LOCKSTEP_ALGORITHM")]
        for lives in self.lives.values():
            for number, life in enumerate(lives):
                parts.append("-- rank %d, life %d, pid %d, status %s\n%s" % (
                    life.rank, number, life.process.pid, life.status, life.errors()[-3000:]))
        return "\n".join(parts)

    def ended_without(self, life):
        """It slept while the others, who are elastic, finished."""
        others = [other for other in self.now() if other is not life]
        return self.elastic and life in self.woken and life.status == 138 and \
            all(other.status == 0 or other in self.late for other in others)

    def _faults_of_all(self, life, got, wanted, stay):
        """Where nobody goes on without others: ranks are those of all who stay, and who was there all the time was told all."""
        faults, who = [], "rank %d" % life.rank
        if got["rank"] != stay.index(life.rank):
            faults.append("%s says that it is rank %d" % (who, got["rank"]))
        again = self.returns and got["told"] > wanted["told"]  # epochs that were made again
        if len(self.lives[life.rank]) == 1 and got["told"] != wanted["told"] and not again:
            faults.append("%s was told of %d epochs, not %d" % (who, got["told"], wanted["told"]))
        return faults

    def faults(self, wanted, gone=()):
        """What is not as in the undisturbed run; [] where all is well. gone: ranks that have been lost for good."""
        faults, stay = [], [rank for rank in self.lives if rank not in gone]
        for life in self.now():
            who = "rank %d" % life.rank
            if life in self.late or self.ended_without(life):
                continue
            if life.rank in gone:
                if life.status != -signal.SIGKILL:
                    faults.append("%s was not lost, it ended with %s" % (who, life.status))
                continue
            if life.status:
                faults.append("%s ended with %d: %s" % (who, life.status, life.last_error()))
                continue
            got = life.result()
            faults += ["%s: %s is %s, not %s" % (who, name, got[name], wanted[name])
                       for name in ("steps", "weights_sha256", "val_accuracy", "outputs")
                       if got.get(name) != wanted.get(name)]
            if got["pid"] != life.process.pid:
                faults.append("%s says that it is pid %d" % (who, got["pid"]))
            if not self.elastic:
                faults += self._faults_of_all(life, got, wanted, stay)
        if set(children_of(os.getpid())) - (self.network.children if self.network else set()):
            faults.append("children are left")
        return faults + ["/dev/shm has %s" % name for name in shared_files()]


def undisturbed(workers, *options, environment=None, program=WORKER):
    """The same training in one process with as many devices."""
    done = subprocess.run([program, *options], capture_output=True, text=True, timeout=LIMIT,
                          env=dict(environment_of(environment), LOCKSTEP_DEVICES=str(workers)))
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Killer:
    """A hook: kills (or stops) a rank that many seconds after all processes have come to a point the first time."""

    def __init__(self, rank, seconds, number=signal.SIGKILL, point="entered"):
        self.rank, self.seconds, self.number, self.point = rank, seconds, number, point
        self.since = self.killed = None  # killed: nanoseconds of the monotonic clock; None: too late, or not yet
        self.done = False

    def __call__(self, job):
        if self.since is None and all(lives[0].notes(self.point) for lives in job.lives.values()):
            self.since = time.monotonic()
        if self.done or self.since is None or time.monotonic() < self.since + self.seconds:
            return
        self.done = True
        life = job.lives[self.rank][-1]
        if life.status is None:
            self.killed = time.monotonic_ns()
            life.process.send_signal(self.number)


class Inheritor:
    """A hook: when a rank that was started anew has taken the state over, kills others that many seconds later; where it has
    stopped itself by then, it is woken after that."""

    def __init__(self, rank, others, seconds=0.0):
        self.rank, self.others, self.seconds = rank, others, seconds
        self.since = self.killed = None  # killed: nanoseconds of the monotonic clock
        self.done = False

    def _has_come(self, life):
        return life.is_stopped() if "STOP" in life.at else life.notes("entered")

    def __call__(self, job):
        lives = job.lives[self.rank]
        if self.done or len(lives) < 2 or lives[1].status is not None:
            return
        if self.since is None and self._has_come(lives[1]):
            self.since = time.monotonic()
        if self.since is None or time.monotonic() < self.since + self.seconds:
            return
        self.done, self.killed = True, time.monotonic_ns()
        for rank in self.others:
            job.lives[rank][-1].kill()
        lives[1].wake()


class Returner:
    """A hook: starts a lost rank anew when another one has entered that many generations. Where it comes when the others have
    finished, it would wait for them: it is ended."""

    def __init__(self, rank, entered=2):
        self.rank, self.entered = rank, entered

    def __call__(self, job):
        lives = job.lives[self.rank]
        others = [own[-1] for rank, own in job.lives.items() if rank != self.rank]
        if lives[-1].status == -signal.SIGKILL and len(lives) == 1 and \
                any(life.status is None and len(life.notes("entered")) >= self.entered for life in others):
            job.start(self.rank)
        if len(lives) > 1 and lives[-1].status is None and not lives[-1].notes("entered") and \
                all(life.status is not None for life in others):
            job.late.append(lives[-1])
            lives[-1].process.kill()
            lives[-1].process.wait()


class Waker:
    """A hook: wakes whoever has stopped itself, after that many seconds."""

    def __init__(self, seconds):
        self.seconds, self.seen, self.woken = seconds, {}, 0

    def __call__(self, job):
        for life in job.now():
            if life.status is not None or not life.is_stopped():
                continue
            since = self.seen.setdefault(life.process.pid, time.monotonic())
            if time.monotonic() > since + self.seconds:
                life.wake()
                job.woken.append(life)
                self.woken += 1
                del self.seen[life.process.pid]


class FreezeAll:
    """A hook: stops all processes at once when the first rank has committed so many steps, and wakes them that many
    seconds later, one after the other with pauses in between."""

    def __init__(self, steps, seconds, pause=0.0):
        self.steps, self.seconds, self.pause = steps, seconds, pause
        self.frozen = 0

    def __call__(self, job):
        if self.frozen or len(job.lives[0][0].notes("committed")) < self.steps:
            return
        lives = [life for life in job.now() if life.status is None]
        for life in lives:
            life.process.send_signal(signal.SIGSTOP)
        time.sleep(self.seconds)
        self.frozen = sum(life.status is None and life.is_stopped() for life in lives)
        for life in lives:
            life.process.send_signal(signal.SIGCONT)
            time.sleep(self.pause)


class JobCase(unittest.TestCase):
    """Tests whose outcome is that of a job."""

    def expect_none(self, faults, job):
        """They come last, where a log's end shows them."""
        self.assertEqual(faults, [], "\n".join([job.describe(), *faults]))
