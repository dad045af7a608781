"""Workers as real processes on localhost ports: start them, hurt them, read what they said."""
import atexit
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from drawing import SEED, drawn, half_of  # noqa: E402, F401
from pace import LIMIT, PACE  # noqa: E402, F401
from task import Task  # noqa: E402

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")

PORTS_BEGIN, PORTS_BLOCKS, PORTS_BLOCK = 15000, 230, 64
held = []  # sockets on the first ports of this process's blocks: (socket, the ports of it that are not given out)
locks = []  # of all their ports, as lockstep run has them (src/launch/run_ports.c): it takes others


def hold_port(port, again=False):
    """The socket that holds the port; None if somebody else does. again: connections of before may still fade there."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, again)
    try:
        holder.bind(("127.0.0.1", port))
        return holder
    except OSError:
        holder.close()
        return None


def lock_port(port):
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind("\0lockstep-run-port-%d" % port)
    except OSError:
        lock.close()
        return False
    locks.append(lock)
    return True


def take_block():
    """As tests/ports.h does: programs of tests that run beside each other never get the same ports."""
    for block in random.sample(range(PORTS_BLOCKS), PORTS_BLOCKS):
        begin = PORTS_BEGIN + block * PORTS_BLOCK
        holder = hold_port(begin)
        if holder:
            held.append((holder, [port for port in range(begin + 1, begin + PORTS_BLOCK) if lock_port(port)]))
            return held[-1][1]
    raise RuntimeError("no block of ports is free")


def free_ports(count):
    """Ports that nobody has, below the range that the kernel gives to clients. Each is given out again after all others."""
    ports, left = [], held[-1][1] if held else take_block()
    for port in list(left):
        left.append(left.pop(0))
        holder = hold_port(port, again=True)
        if not holder:
            continue
        holder.close()
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError("no free ports")


def probe(port, request=b"LSPROBE\n"):
    """What the port answers, to the end; asked in pieces, as a slow network may."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
        connection.sendall(request[:5])
        time.sleep(0.001)
        connection.sendall(request[5:])
        if not request.endswith(b"\n"):
            return ""
        said = b""
        try:
            while part := connection.recv(65536):
                said += part
        except ConnectionResetError:
            pass  # refused, with bytes unread
    return said.decode()


ENDLESS = ("--epochs", "1000000")  # of a training that is disturbed, and stopped afterwards


def shared_files():
    """Shared memory that bears our name; other tests run beside."""
    return sorted(name for name in os.listdir("/dev/shm") if "lockstep" in name.lower())


class Cluster:
    """Tasks of one TF_CONFIG cluster; start() in any order, finish() waits and collects."""

    def __init__(self, count, command, environment=None, cluster=None):
        self.ports = free_ports(count)
        self.cluster = cluster or {"worker": ["127.0.0.1:%d" % port for port in self.ports]}
        self.command = command
        # nobody starts a lost worker anew here: tests/recovery does
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "LOCKSTEP_REJOIN_TIMEOUT": "0", **(environment or {})}
        self.tasks = {}
        atexit.register(self.kill_all)  # a test that failed leaves none of them

    def start(self, index, role="worker", command=None, cluster=None):
        config = {"cluster": cluster or self.cluster, "task": {"type": role, "index": index}}
        environment = dict(self.environment, TF_CONFIG=json.dumps(config))
        task = Task(command or self.command, env=environment)
        self.tasks[(role, index)] = task
        return task

    def start_all(self):
        for index in range(len(self.ports)):
            self.start(index)

    def kill(self, index, number=signal.SIGKILL, role="worker"):
        self.tasks[(role, index)].send_signal(number)

    def wait_until(self, happened, what, timeout=LIMIT):
        """Looks as long as worker 0 is there, and the time is not over."""
        deadline = time.monotonic() + timeout
        while not happened():
            if self.tasks[("worker", 0)].poll() is not None:
                raise AssertionError("worker 0 ended before %s: %s" % (what, self.tasks[("worker", 0)].stderr.read()))
            if time.monotonic() > deadline:
                raise AssertionError("%s did not come within %g s" % (what, timeout))
            time.sleep(0.01)

    def wait_for_step(self, step=1):
        """Until worker 0 has made so many since its process began."""
        port = int(self.cluster["worker"][0].rpartition(":")[2])

        def made():
            with contextlib.suppress(ConnectionRefusedError):  # it does not listen yet
                return int(re.search(r"\nstep=(\d+)", probe(port)).group(1)) >= step
        self.wait_until(made, "step %d" % step)

    def wait_for_checkpoint(self, folder):
        """Until another one is the newest."""
        before = newest_step(folder)
        self.wait_until(lambda: newest_step(folder) != before, "another checkpoint")

    def replace(self, index, role="worker", command=None):
        """Kills a task, and starts it anew when it has ended."""
        self.tasks[(role, index)].kill()
        self.tasks[(role, index)].communicate()
        return self.start(index, role, command)

    def finish(self, timeout=LIMIT):
        """{(role, index): (status, stdout, stderr)}; kills what is left after the timeout and fails."""
        deadline = time.monotonic() + timeout
        results = {}
        try:
            for key, task in self.tasks.items():
                out, err = task.communicate(timeout=max(0.1, deadline - time.monotonic()))
                results[key] = (task.returncode, out, err)
        finally:
            self.kill_all()
        return results

    def kill_all(self):
        for task in self.tasks.values():
            if task.poll() is None:
                task.kill()
                task.wait()


def start_with_servers(workers, servers, command, environment, plain=1):
    """A cluster of workers and parameter servers. The first servers, plain of them, run the workers' command; others run
    lockstep serve."""
    addresses = ["127.0.0.1:%d" % port for port in free_ports(workers + servers)]
    tasks = {"worker": addresses[:workers], **({"ps": addresses[workers:]} if servers else {})}
    cluster = Cluster(1, command, environment, tasks)
    for index in range(servers):
        cluster.start(index, "ps", [LOCKSTEP, "serve"] if index >= plain else None)
    for index in range(workers):
        cluster.start(index)
    return cluster


def expect_ends(test, results, wanted=0, lost=()):
    """Every task ended with the status, and those that are lost by SIGKILL."""
    for key, (status, _, stderr) in results.items():
        test.assertEqual(status, -9 if key in lost else wanted, "%s: %s" % (key, stderr))


def digest(out):
    return re.search(r'"weights_sha256": "(\w+)"', out).group(1)


def tls_settings(folder, task):
    """task: "worker-0"; folder: what lockstep certs made."""
    return {"LOCKSTEP_TLS_CERTIFICATE": "%s/%s.pem" % (folder, task), "LOCKSTEP_TLS_KEY": "%s/%s.key" % (folder, task),
            "LOCKSTEP_TLS_CA": folder + "/ca.pem"}


def wait_for_line(stream, pattern, timeout=LIMIT):
    """Reads lines until one matches. The time ends also when nothing comes."""
    lines, found = [], []

    def read():
        for line in iter(stream.readline, ""):
            lines.append(line)
            if re.search(pattern, line):
                found.append(line)
                return
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(timeout)
    if not found:
        why = "within %g s" % timeout if reader.is_alive() else "before the output ended"
        raise AssertionError("no line matched /%s/ %s:\n%s" % (pattern, why, "".join(lines)))
    return found[0]


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as listed:
        return [int(child) for child in listed.read().split()]


def task_index_of(pid):
    """The worker's index in the TF_CONFIG of that process; None where it has none."""
    with open("/proc/%d/environ" % pid, "rb") as environ:
        found = re.search(rb'"index":\s*(\d+)}', environ.read())
    return int(found.group(1)) if found else None


def workers_of(launcher):
    """{index: process} of the workers that lockstep run has here: its agent's children."""
    return {task_index_of(worker): worker for agent in children_of(launcher) for worker in children_of(agent)
            if task_index_of(worker) is not None}


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def newest_step(folder):
    """Of the newest checkpoint there; 0: there is none."""
    found = (re.match(r"checkpoint-(\d+)\.safetensors$", name) for name in os.listdir(folder))
    return max((int(match.group(1)) for match in found if match), default=0)


def expect_undisturbed(test, command, folder, steps):
    """The command, with so many steps an epoch, goes on from the folder's checkpoint to the end of the next epoch but one,
    with the bits of a training that was not disturbed."""
    step = newest_step(folder)
    command = [*command, "--epochs", str(step // steps + 2)]
    again, whole = (subprocess.run([*command, *more], capture_output=True, text=True, check=True, timeout=2 * LIMIT)
                    for more in (["--checkpoint", folder], []))
    test.assertIn("training goes on after step %d " % step, again.stderr)
    test.assertEqual(*(last_json(done.stdout)["weights_sha256"] for done in (again, whole)))


HIDDEN = ["--hidden", "32,16"]  # a quarter of the default's units: the same ops and variables, less arithmetic


def train_command(*options):
    return [LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", *([] if {"--hidden", "--model"} & set(options) else HIDDEN), *options]


def run_local(workers, devices, *options, environment=None, timeout=2 * LIMIT):
    """lockstep run -np workers --devices devices -- lockstep train ...: the chief's JSON object."""
    command = [LOCKSTEP, "run", "-np", str(workers), "--devices", str(devices), "--no-prefix", "--",
               *train_command("--json", "--verbose", "-1", *options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                          env=dict(os.environ, **(environment or {})))
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise AssertionError("exit status %d from %s" % (done.returncode, " ".join(command)))
    return last_json(done.stdout)
