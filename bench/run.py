"""What the benchmarks of this folder share: child processes that all end, the peers' python, the machine, the exit.

A child that fails or outlives its time is a Failure that names it and quotes its last lines. Whatever was started is
killed on the way out, grandchildren included: the starters of other projects put theirs in process groups of their own.
"""
import argparse
import ctypes
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = Path(os.path.expanduser("~")) / ".cache/lockstep/peers"  # there may be no home
PIP_NAMES = {"tensorflow": "tensorflow-cpu", "torch": "torch"}
FIND = """
import json
from importlib.metadata import version, PackageNotFoundError
def find(*names):
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            pass
print(json.dumps({"tensorflow": find("tensorflow", "tensorflow-cpu"), "torch": find("torch")}))
"""


class Failure(Exception):
    """The benchmark has no result; the text says why."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- processes ---------------------------------------------------------------------------------------------------


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: even when the benchmark itself is killed


def find_descendants(roots):
    """The ids of all processes below these, from /proc."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            pass  # it ended meanwhile
    found, news = set(), set(roots)
    while news:
        news = {pid for pid, parent in parents.items() if parent in news} - found
        found |= news
    return found


def kill(pid, send=os.kill):
    try:
        send(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def ask_to_end(children, seconds=3):
    """A starter that is asked removes what its processes would leave in the system."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(0.02)


def kill_all(children):
    """Asks, then kills: those below, found while their starters still run, and the process group that each child leads."""
    running = [child for child, _ in children if child.poll() is None]
    below = find_descendants(child.pid for child in running) if running else ()
    ask_to_end(running)
    for pid in below:
        kill(pid)
    for child, log in children:
        kill(child.pid, os.killpg)
        child.wait()
        log.close()


def tail(file, lines=12):
    file.seek(0)
    return "\n".join("    " + line for line in file.read().strip().splitlines()[-lines:])


def pause(children):
    time.sleep(0.05)


def wait_all(children, timeout, watch=pause):
    """watch(children): what is done between two looks."""
    deadline = time.monotonic() + timeout
    while True:
        codes = [child.poll() for child, _ in children]
        for (child, log), code in zip(children, codes):
            if code:
                raise Failure(f"exit status {code} of: {' '.join(map(str, child.args))[:400]}\n{tail(log)}")
        if None not in codes:
            return
        if time.monotonic() > deadline:
            child, log = children[codes.index(None)]
            command = " ".join(map(str, child.args))[:400]
            raise Failure(f"no end after {timeout:g} s (--timeout): {command}\n{tail(log)}")
        watch(children)


def start(command, environment, stdout, log):
    """A child that leads a process group and ends with the benchmark."""
    try:
        return subprocess.Popen(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, stdout=stdout,
                                stderr=log, start_new_session=True, preexec_fn=die_with_parent)
    except OSError as error:
        raise Failure(f"cannot start {command[0]}: {error}") from error


def run_all(commands, timeout, watch=pause):
    """Runs [(command, environment)] at the same time; the standard output of each, when all have succeeded."""
    children, outputs = [], [tempfile.TemporaryFile("w+") for _ in commands]
    try:
        for (command, environment), output in zip(commands, outputs):
            log = tempfile.TemporaryFile("w+", errors="replace")
            children.append((start(command, environment, output, log), log))
        wait_all(children, timeout, watch)
    finally:
        kill_all(children)
    for output in outputs:
        output.seek(0)
    return [output.read() for output in outputs]


def run_together(commands, timeout):
    """The standard output of the first."""
    return run_all(commands, timeout)[0]


def last_object(text):
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise Failure(f"no JSON line in the output: {text[-400:]!r}")
    return json.loads(lines[-1])


def environment(**extra):
    """One thread a replica, no GPU, no TF_CONFIG and no proxy from outside."""
    left_out = {"TF_CONFIG", "LOCKSTEP_DEVICES", "RANK", "WORLD_SIZE", "http_proxy", "https_proxy", "HTTP_PROXY",
                "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "grpc_proxy"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1", **extra}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def cluster_tasks(addresses):
    """The environment of each task of one TF_CONFIG cluster."""
    cluster = {"worker": list(addresses)}
    return [{"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})}
            for rank in range(len(cluster["worker"]))]


def group_tasks(count, master, port, interface):
    """The environment of each process of one gloo group of torch."""
    return [{"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": master, "MASTER_PORT": str(port),
             "GLOO_SOCKET_IFNAME": interface} for rank in range(count)]


def tensorflow_tasks(count):
    """Of a TensorFlow cluster on this machine."""
    return cluster_tasks(f"127.0.0.1:{port}" for port in free_ports(count))


def torch_tasks(count):
    """Of a gloo group on this machine."""
    return group_tasks(count, "127.0.0.1", free_ports(1)[0], "lo")


# --- the peers' python -------------------------------------------------------------------------------------------


def find_versions(python, wanted):
    if not Path(python).exists():
        return dict.fromkeys(wanted)
    found = last_object(run_together([([str(python), "-c", FIND], environment())], 60))
    return {name: found[name] for name in wanted}


def install_python_peers(wanted):
    python = VENV / "bin/python"
    missing = [name for name, found in find_versions(python, wanted).items() if not found]
    if not missing:
        return python
    say(f"installing current {' and '.join(missing)} into {VENV} (once; large)")
    for command in ([sys.executable, "-m", "venv", VENV],
                    [python, "-m", "pip", "install", "--quiet", *(PIP_NAMES[name] for name in missing)]):
        run_together([(list(map(str, command)), dict(os.environ))], 3600)
    return python


def find_python_peers(python, wanted, hint):
    """The python that has all of wanted, this one or one made here, and their versions."""
    try:
        python = python or install_python_peers(wanted)
    except Failure as failure:
        raise Failure(f"{' and '.join(wanted)} could not be installed: {failure}\n{hint}") from failure
    versions = find_versions(python, wanted)
    missing = [name for name, found in versions.items() if not found]
    if missing:
        raise Failure(f"{python} has no {' and no '.join(missing)}. {hint}")
    return python, versions


def own_program(options, name):
    """A program of the build folder's bench."""
    program = options.lockstep.resolve().parent / "bench" / name
    if not program.exists():
        raise Failure(f"{program} is missing; scripts/quickstart builds it")
    return program


# --- the machine and the command line -----------------------------------------------------------------------------


def describe_machine(lockstep, versions, **extra):
    """extra: more of lockstep's environment."""
    if not os.access(lockstep, os.X_OK):
        raise Failure(f"{lockstep} is missing; run scripts/quickstart first (or name it: --lockstep PATH)")
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.processor() or "unknown")
    version = run_together([([str(lockstep), "--version"], environment(**extra))], 20).strip()
    return {"lockstep": version, **versions, "cpu": cpu, "cores": len(os.sched_getaffinity(0)),
            "system": platform.platform(), "load_at_start": os.getloadavg()[0]}


def warn_about_machine(machine):
    if machine["load_at_start"] > 0.5 * machine["cores"]:
        say(f"warning: the machine is busy (load {machine['load_at_start']:.1f}); the numbers will be low and uneven")
    if machine["cores"] < 2:
        say("warning: one core only; two replicas share it")


def positive(kind):
    def read(text):
        value = kind(text)
        if not 0 < value < 1e9:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    read.__name__ = kind.__name__
    return read


def program_path(text):
    """Where it is: a Path would make "./lockstep" a bare name, which is looked for in PATH. Links stay: a virtual
    environment's python is one."""
    return Path(text).absolute()


def add_common_options(parser, rounds, seconds, timeout):
    parser.add_argument("--rounds", type=positive(int), default=rounds,
                        help=f"measurements of each program (default {rounds})")
    if seconds:
        parser.add_argument("--seconds", type=positive(float), default=seconds,
                            help=f"of one measurement, about (default {seconds:g})")
    parser.add_argument("--lockstep", type=program_path, default=HERE.parent / "build/lockstep", help="default build/lockstep")
    parser.add_argument("--peers", type=program_path, metavar="PYTHON",
                        help=f"a python that has tensorflow and torch (default: one made in {VENV})")
    parser.add_argument("--timeout", type=positive(float), default=timeout,
                        help=f"seconds for one child (default {timeout:g})")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")


def stop(number, frame):
    raise KeyboardInterrupt


def run_benchmark(name, benchmark, options):
    """The exit status; signals kill the children on the way out."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        benchmark(options)
    except Failure as failure:
        say(f"\n{name}: NO RESULT: {failure}")
        return 1
    except KeyboardInterrupt:
        say(f"\n{name}: stopped; every child has been killed")
        return 130
    return 0
