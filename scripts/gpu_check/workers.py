"""Several workers on the one GPU: NCCL takes ranks with different host ids there. Replicas that stay equal, and a worker
that is killed."""
import os
import re
import signal
import subprocess
import tempfile
import time

from run import kill_all, last_object, start, tail, tensorflow_tasks

from .machine import Bad, need
from .training import train


def cluster(machine, count, **extra):
    """The environment of each worker."""
    return [{**machine.own, **task, **extra, "LOCKSTEP_DEVICES": "gpu:0", "NCCL_HOSTID": f"host-{rank}",
             "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket"} for rank, task in enumerate(tensorflow_tasks(count))]


def train_cluster(machine, count, communication, *more):
    command = machine.lockstep(*train(machine, "--model", "lenet", "--epochs", 2, "--communication", communication, *more))
    return last_object(machine.run_all([(command, own) for own in cluster(machine, count)])[0])


def bench_workers(machine):
    """Speed here is that of two processes on one GPU over loopback: it tells nothing of two GPUs."""
    command = machine.lockstep("bench", "all-reduce", "--communication", "nccl", "--bytes", machine.sizes.bytes, "--check", "--json")
    result = last_object(machine.run_all([(command, own) for own in cluster(machine, 2)])[0])
    need(result["workers"] == 2 and result["devices"] == 1, f"bench: {result['workers']} workers, {result['devices']} devices")
    return "bench all-reduce, nccl x2, sums right: " + ", ".join(
        f"{row['bytes']} bytes {row['time_us']:.0f} us" for row in result["rows"])


def check_workers(machine):
    """An epoch's end compares the digests of all replicas: a training that succeeds had equal ones."""
    texts = []
    for communication in machine.sizes.communications:
        for count in machine.sizes.workers:
            result = train_cluster(machine, count, communication)
            need(result["num_workers"] == count, f"{communication}: {result['num_workers']} workers of {count}")
            again = train_cluster(machine, count, communication)
            need(result["weights_sha256"] == again["weights_sha256"], f"{communication}, {count} workers: twice is not equal")
            texts.append(f"{communication} x{count}")
    return "equal replicas, and twice the same bits: " + ", ".join(texts) + "\n" + bench_workers(machine)


def wait_for(machine, log, pattern, limit):
    deadline = time.monotonic() + min(limit, machine.left())
    while time.monotonic() < deadline:
        log.seek(0)
        match = re.search(pattern, log.read())
        if match:
            return match
        time.sleep(0.02)
    raise Bad(f"no line '{pattern}' in its time; the last were:\n{tail(log)}")


class Job:
    """Two workers over NCCL, each with a file of what it says."""

    def __init__(self, machine, *more):
        self.command = machine.lockstep(*train(machine, "--model", "lenet", *more, "--communication", "nccl"))
        self.command[self.command.index("-1")] = "1"
        self.environments = cluster(machine, 2, LOCKSTEP_REJOIN_TIMEOUT="60")
        self.children = []

    def start(self, rank, output):
        log = tempfile.TemporaryFile("a+", errors="replace")  # who reads it moves no writer
        self.children.append((start(self.command, self.environments[rank], output, log), log))
        return self.children[-1]


# What the survivor says, in NCCL's words or in the cluster's, whoever hears of it first.
GIVEN_UP = r"warning: (.*); waiting up to [0-9.]+ s for it to come back"


def lose_one(machine, job, output):
    """What is told of it: seconds until the survivor has given up, and until all were there again. Who kills waits for
    the second epoch."""
    survivor, log = job.start(0, output)
    lost, _ = job.start(1, subprocess.DEVNULL)
    wait_for(machine, log, r"gradients of 2 GPUs are added by NCCL", 60)
    wait_for(machine, output, r"Epoch 2/", 60)
    need(survivor.poll() is None and lost.poll() is None, f"it ended before the kill:\n{tail(log)}")
    os.killpg(lost.pid, signal.SIGKILL)
    killed = time.monotonic()
    given_up = wait_for(machine, log, GIVEN_UP, 10)
    noticed = time.monotonic() - killed
    job.start(1, subprocess.DEVNULL)
    match = wait_for(machine, log, r"all 2 workers are there after ([0-9.]+) s", 60)
    try:
        survivor.wait(machine.left())
    except subprocess.TimeoutExpired as error:
        raise Bad(f"the survivor did not end in its time:\n{tail(log)}") from error
    need(survivor.returncode == 0, f"the survivor ended with {survivor.returncode}:\n{tail(log)}")
    need(noticed <= 2, f"the survivor gave up {noticed:.2f} s after the kill: more than 2 s")
    log.seek(0)
    left = ", NCCL left behind in an abort" if "NCCL has not aborted" in log.read() else ""
    unnamed = "" if "worker:1 " in given_up[1] else f" without its name ({given_up[1]})"
    return (f"given up {noticed:.2f} s after the kill{unnamed}, formed anew {match[1]} s after (the start of the process "
            f"included){left}")


def check_kill(machine):
    """One of two workers over NCCL is killed and comes back: the other one goes on in its process, to the same weights."""
    more = ("--epochs", machine.sizes.kill_epochs)
    whole = train_cluster(machine, 2, "nccl", *more)["weights_sha256"]
    job = Job(machine, *more)
    with tempfile.TemporaryFile("a+", errors="replace") as output:
        try:
            told = lose_one(machine, job, output)
        finally:
            kill_all(job.children)
        output.seek(0)
        again = last_object(output.read())["weights_sha256"]
    need(again == whole, "the weights are not those of the undisturbed training")
    return f"{told}, same weights"
