"""Several workers on the one GPU: NCCL takes ranks with different host ids there. Replicas that stay equal, and a worker
that is killed."""
import re
import time

from job import Job
from run import last_object, tensorflow_tasks

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


# What the survivor says, in NCCL's words or in the cluster's, whoever hears of it first.
GIVEN_UP = r"warning: (.*); waiting up to [0-9.]+ s for it to come back"


class Loss:
    """A hook: kills the second worker in the second epoch, and starts it anew when the other one has given up."""

    def __init__(self):
        self.killed = self.seconds = self.words = None  # words: in which the other one has given up, so late

    def __call__(self, job):
        survivor, lost = job.lives[0][0], job.lives[1][0]
        if self.killed is None and "Epoch 2/" in survivor.output():
            need(survivor.status is None and lost.status is None, f"it ended before the kill:\n{survivor.errors()[-1000:]}")
            self.killed = time.monotonic()
            lost.kill()
        elif self.killed and not self.words:
            self.words, self.seconds = re.search(GIVEN_UP, survivor.errors()), time.monotonic() - self.killed
            job.restart = bool(self.words)


def train_two(machine, *hooks):
    """Two workers over NCCL: the digest of the first one's weights, and what it said."""
    command = machine.lockstep(*train(machine, "--model", "lenet", "--epochs", machine.sizes.kill_epochs,
                                      "--communication", "nccl", "--verbose", 1))
    tasks = cluster(machine, 2, LOCKSTEP_REJOIN_TIMEOUT="60", LOCKSTEP_ALGORITHM="auto")
    job = Job(2, command[1:], tasks[0], program=command[0], restart=False,
              task_environment=lambda rank: {"NCCL_HOSTID": tasks[rank]["NCCL_HOSTID"]})
    with job.folder:
        try:
            job.start_all().finish(hooks, machine.left())
        except AssertionError as error:
            raise Bad(str(error)) from error
        life = job.lives[0][0]
        need(life.status == 0, f"the survivor ended with {life.status}:\n{life.errors()[-1000:]}")
        return life.result()["weights_sha256"], life.errors()


def check_kill(machine):
    """One of two workers over NCCL is killed and comes back: the other one goes on in its process, to the same weights."""
    loss, (whole, _) = Loss(), train_two(machine)
    again, said = train_two(machine, loss)
    need("gradients of 2 GPUs are added by NCCL" in said, "NCCL adds no gradients")
    need(loss.words, "nobody was lost, or nobody noticed")
    need(loss.seconds <= 2, f"the survivor gave up {loss.seconds:.2f} s after the kill: more than 2 s")
    need(again == whole, "the weights are not those of the undisturbed training")
    back = re.search(r"all 2 workers are there after ([0-9.]+) s", said)
    need(back, "the survivor did not see both workers again")
    left = ", NCCL left behind in an abort" if "NCCL has not aborted" in said else ""
    unnamed = "" if "worker:1 " in loss.words[1] else f" without its name ({loss.words[1]})"
    return (f"given up {loss.seconds:.2f} s after the kill{unnamed}, formed anew {back[1]} s after (the start of the process "
            f"included){left}, same weights")
