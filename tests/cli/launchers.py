"""Environments as launchers make them, and broken ones: lockstep check says who this process is, where that is read and
what else was seen; and workers train together in them."""
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile

import cli

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from cluster import free_ports  # noqa: E402

HOST = socket.gethostname()
SLURM = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "n[01-02]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
         "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_DISTRIBUTION": "block", "SLURMD_NODENAME": "n01", "SLURM_GTIDS": "0,1"}
TORCH = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
         "TORCHELASTIC_RUN_ID": "none"}
OMPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "n-1"}
PMI = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
HOROVOD = {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_SIZE": "2"}
SAGEMAKER = {"SM_HOSTS": '["algo-1","algo-10","algo-2"]', "SM_CURRENT_HOST": "algo-2"}
PETS = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "auto", "PET_MASTER_ADDR": "j-node-0-0.j", "PET_MASTER_PORT": "29500"}
PYTORCHJOB = {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "1", "RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "j-master-0", "MASTER_PORT": "23456"}
JAX = {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "j-node-0-0.j:29500"}
VERTEX = {"CLUSTER_SPEC": '{"cluster":{"workerpool0":["a:2222"],"workerpool1":["b:2222"]},"task":{"type":"workerpool1","index":0}}'}
AWS = {"AWS_BATCH_JOB_NODE_INDEX": "1", "AWS_BATCH_JOB_NUM_NODES": "2"}
TF = '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":%d}}'
OF_LAUNCHERS = ("SLURM", "TORCHELASTIC", "OMPI_", "PMI", "HOROVOD_", "SM_", "PET_", "JAX_", "AWS_BATCH", "MPI_", "MV2_")
BARE = {name: value for name, value in cli.environment().items()
        if not name.startswith(OF_LAUNCHERS) and name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CLUSTER_SPEC")}

# (environment, source, rank, size, addresses or None, sources that are ignored)
GOOD = [
    ({}, "none", 0, 1, None, []),
    ({"TF_CONFIG": TF % 1}, "tf_config", 1, 2, ["a:1", "b:1"], []),
    (SLURM, "slurm", 1, 4, ["n01:61447", "n01:61448", "n02:61449", "n02:61450"], []),
    ({**SLURM, "SLURM_STEP_ID": "2"}, "slurm", 1, 4, ["n01:61479", "n01:61480", "n02:61481", "n02:61482"], []),
    ({**SLURM, "SLURM_JOB_ID": "4095"}, "slurm", 1, 4, ["n01:65535", "n01:61440", "n02:61441", "n02:61442"], []),
    ({**SLURM, "SLURM_STEP_RESV_PORTS": "12000-12001"}, "slurm", 1, 4, ["n01:12000", "n01:12001", "n02:12000", "n02:12001"], []),
    ({**SLURM, "SLURM_DISTRIBUTION": "cyclic", "SLURMD_NODENAME": "n02", "SLURM_GTIDS": "1,3"}, "slurm", 1, 4,
     ["n01:61447", "n02:61448", "n01:61449", "n02:61450"], []),
    ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_GTIDS": "0,1,2"}, "slurm", 1, 4,
     ["n01:61447", "n01:61448", "n01:61449", "n02:61450"], []),
    ({**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": "1"}, "none", 0, 1, None, ["slurm"]),
    ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, "none", 0, 1, None, []),  # the body of a batch script
    ({**SLURM, "PMI_RANK": "1", "PMI_SIZE": "4"}, "slurm", 1, 4, None, []),  # Slurm's own PMI-2
    (TORCH, "torchrun", 1, 2, None, []),
    ({**TORCH, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}, "none", 0, 1, None, ["torchrun"]),
    ({**{k: v for k, v in TORCH.items() if k in ("RANK", "WORLD_SIZE", "MASTER_PORT")}, "MASTER_ADDR": "127.0.0.1"}, "torchrun", 1, 2,
     None, []),
    (OMPI, "openmpi", 0, 2, None, []),
    (PMI, "pmi", 0, 2, None, []),
    ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, "pmi", 1, 2, None, []),
    (HOROVOD, "horovod", 0, 2, None, []),
    (SAGEMAKER, "sagemaker", 2, 3, ["algo-1:7777", "algo-10:7777", "algo-2:7777"], []),
    ({"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1"}, "none", 0, 1, None, ["sagemaker"]),
    (PETS, "pytorchjob", 1, 2, ["j-node-0-0.j:29500", "j-node-0-1.j:29500"], []),
    (PYTORCHJOB, "pytorchjob", 2, 3, ["j-master-0:23456", "j-worker-0:23456", "j-worker-1:23456"], []),
    (JAX, "jax", 1, 2, ["j-node-0-0.j:29500", "j-node-0-1.j:29500"], []),
    (VERTEX, "cluster_spec", 1, 2, ["a:2222", "b:2222"], []),
    ({"CLUSTER_SPEC": '{"worker":["a:1","b:1"]}'}, "none", 0, 1, None, []),  # TonY's has no task
    # rank 0 hands out the addresses
    ({**TORCH, "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.0.0.1"}, "torchrun", 1, 2, "10.0.0.1", []),
    ({**AWS, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.1", "AWS_BATCH_JOB_ID": "j#1"}, "aws_batch", 1, 2, "10.0.0.1", []),
    ({**AWS, "AWS_BATCH_JOB_MAIN_NODE_INDEX": "1"}, "aws_batch", 0, 2, "", []),
    ({**PETS, "PET_MASTER_ADDR": "10.0.0.1"}, "pytorchjob", 1, 2, "10.0.0.1", []),
    ({**OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "LOCKSTEP_RENDEZVOUS": "[fd00::1]:61440"}, "openmpi", 0, 2, "[fd00::1]", []),
    ({**SLURM, "LOCKSTEP_RENDEZVOUS": "n01:61440"}, "slurm", 1, 4, "n01", []),
    # more than one
    ({"TF_CONFIG": TF % 1, **TORCH}, "tf_config", 1, 2, ["a:1", "b:1"], ["torchrun"]),
    ({"TF_CONFIG": TF % 1, **SLURM}, "tf_config", 1, 2, ["a:1", "b:1"], ["slurm"]),
    ({"TF_CONFIG": TF % 1, **VERTEX}, "tf_config", 1, 2, ["a:1", "b:1"], ["cluster_spec"]),
    ({"TF_CONFIG": TF % 1, "RANK": "1", "WORLD_SIZE": "2"}, "tf_config", 1, 2, ["a:1", "b:1"], ["torchrun"]),  # half a set beside it
    ({"TF_CONFIG": "{}", **SLURM}, "slurm", 1, 4, None, []),
    ({**OMPI, **SLURM}, "openmpi", 0, 2, None, ["slurm"]),  # mpirun within an allocation: its daemon's task
    ({**TORCH, **SLURM}, "torchrun", 1, 2, None, ["slurm"]),
    ({**OMPI, **PMI}, "openmpi", 0, 2, None, ["pmi"]),
    ({**HOROVOD, **OMPI}, "horovod", 0, 2, None, ["openmpi"]),
    ({**TORCH, **SLURM, "LOCKSTEP_CLUSTER": "slurm"}, "slurm", 1, 4, None, []),
    ({"TF_CONFIG": TF % 0, **TORCH, "LOCKSTEP_CLUSTER": "tf_config"}, "tf_config", 0, 2, None, []),
    ({**SLURM, "LOCKSTEP_CLUSTER": "none"}, "none", 0, 1, None, []),
]

# (environment, words of the error)
BAD = [
    ({**TORCH, "WORLD_SIZE": "two"}, "WORLD_SIZE='two' is no number"),
    ({**TORCH, "WORLD_SIZE": "0"}, "WORLD_SIZE='0' is no number from 1"),
    ({**TORCH, "WORLD_SIZE": "-2"}, "WORLD_SIZE='-2' is no number"),
    ({**TORCH, "WORLD_SIZE": "99999999999999999999"}, "is no number from 1 to"),
    ({**TORCH, "RANK": "2"}, "RANK='2' is no number from 0 to 1"),
    ({**TORCH, "RANK": " 1"}, "RANK=' 1' is no number"),
    ({**TORCH, "RANK": "1x"}, "RANK='1x' is no number"),
    ({**TORCH, "RANK": ""}, "WORLD_SIZE is set and RANK is not"),
    ({"RANK": "1"}, "RANK is set and WORLD_SIZE is not"),
    ({**TORCH, "MASTER_ADDR": ""}, "MASTER_ADDR is not"),
    ({**TORCH, "MASTER_PORT": ""}, "MASTER_PORT='' is no number"),
    ({**TORCH, "MASTER_PORT": "70000"}, "MASTER_PORT='70000' is no number from 1 to 65535"),
    ({**TORCH, "LOCAL_WORLD_SIZE": "3"}, "LOCAL_WORLD_SIZE='3'"),
    ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_RANK is set and OMPI_COMM_WORLD_SIZE is not"),
    ({**OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "give all LOCKSTEP_RENDEZVOUS=HOST:PORT"),
    ({**OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "no"}, "OMPI_COMM_WORLD_LOCAL_SIZE='no'"),
    ({"PMI_SIZE": "4"}, "PMI_SIZE is set and PMI_RANK is not"),
    ({"PMI_RANK": "0", "PMI_SIZE": "4"}, "pmi"),
    ({"HOROVOD_SIZE": "2"}, "HOROVOD_SIZE is set and HOROVOD_RANK is not"),
    ({**HOROVOD, "HOROVOD_LOCAL_SIZE": "1"}, "horovod"),
    ({**HOROVOD, "HOROVOD_LOCAL_SIZE": "9"}, "HOROVOD_LOCAL_SIZE='9'"),
    (AWS, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set"),
    ({**AWS, "AWS_BATCH_JOB_MAIN_NODE_INDEX": "2"}, "AWS_BATCH_JOB_MAIN_NODE_INDEX='2'"),
    ({**OMPI, "LOCKSTEP_RENDEZVOUS": "node"}, "LOCKSTEP_RENDEZVOUS"),
    ({**OMPI, "LOCKSTEP_RENDEZVOUS": "node:70000"}, "LOCKSTEP_RENDEZVOUS"),
    ({"AWS_BATCH_JOB_NUM_NODES": "2"}, "AWS_BATCH_JOB_NODE_INDEX is not"),
    ({**SAGEMAKER, "SM_HOSTS": "algo-1"}, "SM_HOSTS='algo-1' is no JSON"),
    ({**SAGEMAKER, "SM_HOSTS": '{"a":1}'}, "SM_HOSTS is no list"),
    ({**SAGEMAKER, "SM_HOSTS": '["algo-1",2]'}, "SM_HOSTS[1] is 2"),
    ({**SAGEMAKER, "SM_CURRENT_HOST": "algo-7"}, "SM_CURRENT_HOST='algo-7' is not among the 3"),
    ({"CLUSTER_SPEC": "{"}, "CLUSTER_SPEC"),
    ({"CLUSTER_SPEC": VERTEX["CLUSTER_SPEC"].replace("b:2222", "b")}, "CLUSTER_SPEC"),
    ({"JOB_COMPLETION_INDEX": "1"}, "set LOCKSTEP_NUM_WORKERS"),
    ({"JOB_COMPLETION_INDEX": "4", "LOCKSTEP_NUM_WORKERS": "4"}, "JOB_COMPLETION_INDEX='4' is no number from 0 to 3"),
    ({"JOB_COMPLETION_INDEX": "0", "LOCKSTEP_NUM_WORKERS": "many"}, "LOCKSTEP_NUM_WORKERS='many'"),
    ({"JOB_COMPLETION_INDEX": "3", "LOCKSTEP_NUM_WORKERS": "5"}, "does not end in -3"),
    ({**PETS, "PET_NPROC_PER_NODE": "4"}, "PET_NPROC_PER_NODE is 4"),
    ({**PETS, "PET_NNODES": "1:4"}, "PET_NNODES='1:4' is no number"),
    ({**PETS, "PET_MASTER_ADDR": ""}, "PET_MASTER_ADDR is not"),
    ({**PETS, "PET_MASTER_PORT": "0"}, "PET_MASTER_PORT='0'"),
    ({**PYTORCHJOB, "PET_NPROC_PER_NODE": "2", "WORLD_SIZE": "6"}, "RANK counts pods, and each is to run 2 processes"),
    ({**PYTORCHJOB, "WORLD_SIZE": "6"}, "WORLD_SIZE is 6 and PET_NNODES is 3"),
    ({**PYTORCHJOB, "MASTER_ADDR": "elsewhere"}, "MASTER_ADDR='elsewhere' has no '-master-0'"),
    ({**JAX, "JAX_COORDINATOR_ADDRESS": "j-node-0-0.j"}, "is no host:port"),
    ({**JAX, "JAX_COORDINATOR_ADDRESS": "j:29500"}, "does not end in '-' and a number"),
    ({**JAX, "JAX_NUM_PROCESSES": ""}, "JAX_NUM_PROCESSES is not"),
    ({**SLURM, "SLURM_PROCID": "4"}, "SLURM_PROCID='4'"),
    ({**SLURM, "SLURM_PROCID": ""}, "SLURM_PROCID is not"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[01-02"}, "a bracket is not closed at character 2"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[02-01]"}, "a range that counts down"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[]"}, "a number is missing at character"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[1,]"}, "a number is missing at character"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[1-]"}, "a number is missing at character"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[a]"}, "a number is missing at character"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[1-99999999999999999999]"}, "a range that counts down, or is too long"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n01,,n02"}, "a name is missing at character 5"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n01,n02,"}, "a name is missing"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n01/n02"}, "a character that no name of a host has at character 4"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n" * 300}, "more than 255 characters"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n[0-65535][0-65535]"}, "more than 65536 nodes"),
    ({**SLURM, "SLURM_STEP_NODELIST": "n01"}, "more counts than there are nodes"),
    ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2"}, "fewer counts than there are nodes"),
    ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2(x"}, "no ','"),
    ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2(x2)1"}, "no ','"),
    ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2(x2),"}, "no count like"),
    ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, "are 2 tasks, and SLURM_STEP_NUM_TASKS is 4"),
    ({**SLURM, "SLURM_DISTRIBUTION": "cyclic"}, "start the step with srun -m block"),
    ({**SLURM, "SLURM_DISTRIBUTION": "plane=3", "SLURM_GTIDS": "0,1,3"}, "start the step with srun -m block"),
    ({**SLURM, "SLURMD_NODENAME": "n02"}, "start the step with srun -m block"),
    ({**SLURM, "SLURM_HET_SIZE": "2"}, "SLURM_HET_SIZE is 2"),
    ({**SLURM, "SLURM_STEP_RESV_PORTS": "12000"}, "is no range of ports"),
    ({**SLURM, "SLURM_STEP_RESV_PORTS": "12000-12000"}, "are 1 ports"),
    ({**SLURM, "SLURM_JOB_ID": "x"}, "SLURM_JOB_ID='x'"),
    # more than one
    ({"TF_CONFIG": TF % 0, **TORCH}, "TF_CONFIG says worker:0, rank 0 of 2, and torchrun says RANK=1 of WORLD_SIZE=2"),
    ({"TF_CONFIG": TF % 0, **OMPI, "OMPI_COMM_WORLD_SIZE": "3"}, "and openmpi says OMPI_COMM_WORLD_RANK=0 of OMPI_COMM_WORLD_SIZE=3"),
    ({**OMPI, **PMI, "PMI_RANK": "1"}, "openmpi says OMPI_COMM_WORLD_RANK=0 of OMPI_COMM_WORLD_SIZE=2, and pmi says PMI_RANK=1"),
    ({**SAGEMAKER, **JAX}, "sagemaker says"),
    ({"LOCKSTEP_CLUSTER": "nomad"}, "LOCKSTEP_CLUSTER='nomad' is none of tf_config, horovod"),
    ({"LOCKSTEP_CLUSTER": "slurm"}, "LOCKSTEP_CLUSTER=slurm, and none of its variables is set"),
]


def check(variables):
    done = cli.lockstep("check", "--json", env={**BARE, **variables})
    return done.returncode, json.loads(done.stdout)


def each_environment_is_read():
    for variables, source, rank, size, addresses, ignored in GOOD:
        code, said = check(variables)
        cli.equal((code, said["source"], said["id_in_cluster"], said["num_workers"]), (0, source, rank, size), (variables, said))
        cli.equal([entry["source"] for entry in said["ignored"]], ignored, variables)
        found = [address for role in ("chief", "worker") for address in said["cluster"].get(role, [])]
        if isinstance(addresses, str):
            cli.equal(found[0].rpartition(":")[0], addresses, variables)
            assert 61440 <= int(found[0].rpartition(":")[2]) <= 65535 or source == "pytorchjob", (variables, found)
        elif addresses is not None:
            cli.equal(found, addresses, variables)
        elif size > 1 and source in ("torchrun", "openmpi", "pmi", "horovod"):
            ports = [int(address.removeprefix("127.0.0.1:")) for address in found]
            assert len(set(ports)) == size and all(61440 <= port <= 65535 for port in ports), (variables, found)


def each_broken_one_is_one_error():
    assert len(BAD) >= 60
    for variables, words in BAD:
        code, said = check(variables)
        cli.equal((code, said["valid"], said["error"] and said["error"]["code"]), (2, False, "INVALID_ARGUMENT"), (variables, said))
        assert words in said["error"]["message"], (variables, said["error"]["message"])
        done = cli.lockstep("train", "--model", "mlp", "--dataset", "digits", "--limit", "8", env={**BARE, **variables})
        cli.equal((done.returncode, said["error"]["message"] in done.stderr.decode()), (2, True), (variables, done.stderr))


def random_lists_of_nodes_are_expanded():
    """Against an expansion of the test's own; the tasks of all nodes, block and cyclic."""
    draw = random.Random()
    for _ in range(30):
        seed = draw.randrange(1 << 30)
        chance = random.Random(seed)
        text, nodes = [], []
        for part in range(chance.randint(1, 4)):
            stem, width, first = "n%d-" % part, chance.randint(1, 4), chance.randint(0, 9)
            last, tail = first + chance.randint(0, 5), chance.choice(["", ".x", "b"])
            if chance.random() < 0.3:
                text.append(stem + "x")
                nodes.append(stem + "x")
                continue
            text.append("%s[%0*d-%0*d,%0*d]%s" % (stem, width, first, width, last, width, last + 7, tail))
            nodes += ["%s%0*d%s" % (stem, width, number, tail) for number in [*range(first, last + 1), last + 7]]
        counts = [chance.randint(1, 3) for _ in nodes]
        tasks, cyclic = sum(counts), chance.random() < 0.5
        if tasks < 2:
            continue
        places = [(local, node) for node in range(len(nodes)) for local in range(counts[node])]
        order = sorted(places) if cyclic else sorted(places, key=lambda place: (place[1], place[0]))
        rank = chance.randrange(tasks)
        own = order[rank][1]
        variables = {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_STEP_NODELIST": ",".join(text),
                     "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, counts)), "SLURMD_NODENAME": nodes[own],
                     "SLURM_DISTRIBUTION": "cyclic" if cyclic else "block",
                     "SLURM_GTIDS": ",".join(str(i) for i, place in enumerate(order) if place[1] == own)}
        code, said = check(variables)
        cli.equal(code, 0, (seed, variables, said))
        cli.equal(said["cluster"]["worker"], ["%s:%d" % (nodes[node], 61440 + (place if tasks <= 16 else local)) for place, (local, node) in enumerate(order)], (seed, variables))


def train(environments):
    """The digest of the weights that the processes end with together."""
    command = [cli.LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", "--epochs", "1", "--limit", "64", "--batch-size", "16",
               "--no-validation", "--json"]
    workers = [subprocess.Popen(command, env={**BARE, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL) for variables in environments]
    results = [cli.finish(worker) for worker in workers]
    for code, _, err in results:
        cli.equal(code, 0, err)
    digests = {line.split('"weights_sha256": "')[1].split('"')[0] for _, out, _ in results for line in out.splitlines()
               if '"weights_sha256": "' in line}
    cli.equal(len(digests), 1, results)
    return digests.pop()


def workers_train_as_under_lockstep_run():
    """Torchrun's, mpirun's and Slurm's variables of two processes on this host give the digest of TF_CONFIG."""
    job = str(os.getpid())
    config = {"cluster": {"worker": ["127.0.0.1:%d" % port for port in free_ports(2)]}}
    wanted = train([{"TF_CONFIG": json.dumps({**config, "task": {"type": "worker", "index": rank}})} for rank in (0, 1)])
    cli.equal(train([{**TORCH, "RANK": str(rank), "TORCHELASTIC_RUN_ID": job} for rank in (0, 1)]), wanted)
    cli.equal(train([{**OMPI, "OMPI_COMM_WORLD_RANK": str(rank), "PMIX_NAMESPACE": job} for rank in (0, 1)]), wanted)
    cli.equal(train([{**PMI, "PMI_RANK": str(rank), "PMI_JOBID": job} for rank in (0, 1)]), wanted)
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_JOB_ID": job,
            "SLURM_GTIDS": "0,1", "SLURMD_NODENAME": "localhost"}
    cli.equal(train([{**step, "SLURM_PROCID": str(rank)} for rank in (0, 1)]), wanted)


def free_address():
    return "127.0.0.1:%d" % free_ports(1)[0]


def rank(number, size, address, **variables):
    return {**OMPI, "OMPI_COMM_WORLD_RANK": str(number), "OMPI_COMM_WORLD_SIZE": str(size), "LOCKSTEP_RENDEZVOUS": address,
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1", **variables}


def rank_0_hands_out_the_addresses():
    """By torchrun's variables, by the setting, with a token, with TLS; each with the digest of TF_CONFIG's three."""
    wanted = train([rank(number, 3, free) for free in [free_address()] for number in (2, 0, 1)])
    torch = {**TORCH, "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": HOST, "TORCHELASTIC_RUN_ID": "r%d" % os.getpid()}
    cli.equal(train([{**torch, "RANK": str(number)} for number in (1, 2, 0)]), wanted)
    with tempfile.TemporaryDirectory() as folder:
        cli.equal(cli.lockstep("certs", folder, "--tasks", "worker:3").returncode, 0)
        free = free_address()
        cli.equal(train([rank(number, 3, free, LOCKSTEP_TOKEN="0123456789abcdef", LOCKSTEP_TLS_CA=folder + "/ca.pem",
                              LOCKSTEP_TLS_CERTIFICATE="%s/worker-%d.pem" % (folder, number),
                              LOCKSTEP_TLS_KEY="%s/worker-%d.key" % (folder, number)) for number in (0, 1, 2)]), wanted)
    addresses = [free_address() for _ in range(3)]
    cli.equal(train([{"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": number}})}
                     for number in range(3)]), wanted)


def who_does_not_fit_is_named():
    """Workers that differ, or are too few, while rank 0 waits: they end with a failure, and one of them says why."""
    one, other = {"LOCKSTEP_TOKEN": "0123456789abcdef"}, {"LOCKSTEP_TOKEN": "fedcba9876543210"}
    cases = [([(0, 3, {}), (1, 4, {})], "rank 1 says that there are 4 workers, and rank 0 that there are 3"),
             ([(0, 3, one), (1, 3, one), (1, 3, one)], "two processes say that they are rank 1 of 3"),
             ([(0, 3, one), (1, 3, other)], "another token than rank 1"),
             ([(0, 3, {}), (1, 3, one)], "rank 0 has no token and rank 1 has one"),
             ([(0, 3, one), (1, 3, {})], "rank 0 has a token and rank 1 has none"),
             ([(0, 3, {}), (1, 3, {})], "rank 0 waited for rank 2 at port"),
             ([(2, 3, {})], "waited for rank 0 at 127.0.0.1:")]
    with contextlib.ExitStack() as files:
        def start(address, number, size, variables):
            said = files.enter_context(tempfile.TemporaryFile("w+"))
            return subprocess.Popen([cli.LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", "--limit", "8"], stderr=said,
                                    stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                    env={**BARE, **rank(number, size, address, LOCKSTEP_REPORT_INTERVAL="0.1", **variables)}), said

        def read(said):
            """Each line once: a wait says the same again and again."""
            said.seek(0)
            return "".join(dict.fromkeys(said))
        started = []
        for workers, words in cases:
            free, waits = free_address(), "60" if len(workers) > 1 else "2"
            started.append((words, free, workers[0], [start(free, number, size, {"LOCKSTEP_JOIN_TIMEOUT": waits, **variables})
                                                      for number, size, variables in workers if number]))
        for words, free, (number, size, variables), others in started:
            for _, said in others:
                cli.wait_until(lambda file=said: "waiting for rank 0" in read(file), "another rank to dial", cli.LIMIT)
            if number == 0: # which waits from now on: how long the others took to begin does not matter
                others.append(start(free, number, size, {"LOCKSTEP_JOIN_TIMEOUT": "4", **variables}))
        for words, _, _, processes in started:
            codes, told = [process.wait(cli.LIMIT) for process, _ in processes], [read(said) for _, said in processes]
            assert all(codes), (codes, told)
            assert any(words in err for err in told), (words, told)


def a_stranger_that_says_it_is_rank_1_ends_nothing():
    """Without a token. Rank 1 says that there are two, asks again, and comes in when the stranger has left."""
    free = free_address()
    place = (free.split(":")[0], int(free.split(":")[1]))
    command = [cli.LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", "--limit", "8", "--verbose", "0"]
    with contextlib.ExitStack() as stack:
        def start(number):
            said = stack.enter_context(tempfile.TemporaryFile("w+"))
            worker = subprocess.Popen(command, env={**BARE, **rank(number, 3, free, LOCKSTEP_REPORT_INTERVAL="0.1")}, stderr=said,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            stack.callback(worker.kill)
            return worker, said

        def says(said, words):
            said.seek(0)
            return words in said.read()
        with socket.create_server(place) as listening:  # what rank 1 asks is in the clear
            one, _ = start(1)
            with listening.accept()[0] as connection:
                ask = connection.recv(48, socket.MSG_WAITALL)
            one.kill()
            one.wait(cli.LIMIT)
        zero, heard = start(0)
        cli.wait_until(lambda: says(heard, "waiting for ranks 1, 2 at"), "rank 0")
        with socket.create_connection(place) as stranger:
            stranger.sendall(ask)
            cli.wait_until(lambda: says(heard, "waiting for rank 2 at"), "the stranger to be rank 1")
            one, said = start(1)
            cli.wait_until(lambda: says(said, f"waiting for rank 0 at {free}: two processes say that they are rank 1 of 3"), "rank 1")
        two, _ = start(2)
        cli.equal([worker.wait(cli.LIMIT) for worker in (zero, one, two)], [0, 0, 0])


def a_worker_that_is_started_anew_asks_again():
    free = free_address()
    command = [cli.LOCKSTEP, "train", "--model", "mlp", "--dataset", "digits", "--epochs", "12", "--limit", "256", "--batch-size", "8",
               "--no-validation", "--json"]

    def start(number):
        return subprocess.Popen(command, env={**BARE, **rank(number, 3, free)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, stdin=subprocess.DEVNULL)
    workers = [start(number) for number in range(3)]
    workers[0].stdout.readline()
    workers[2].kill()
    workers[2].communicate()
    workers[2] = start(2)
    for worker in workers:
        code, _, err = cli.finish(worker)
        cli.equal(code, 0, err)


def pods_of_an_indexed_job_know_each_other():
    """In a name space of its own the host has a pod's name."""
    script = ("hostname job-2; export JOB_COMPLETION_INDEX=2 LOCKSTEP_NUM_WORKERS=3 %s; exec " + cli.LOCKSTEP + " check --json")
    for variable, tail in (("LOCKSTEP_SUBDOMAIN=svc", ".svc"), ("", "")):
        done = subprocess.run(["unshare", "--uts", "sh", "-c", script % variable], env=BARE, capture_output=True, text=True, timeout=cli.LIMIT)
        if "Operation not permitted" in done.stderr:
            print("# no right to make a name space: skipped", file=sys.stderr)
            return
        said = json.loads(done.stdout)
        cli.equal((said["source"], said["id_in_cluster"]), ("indexed_job", 2), done.stdout)
        cli.equal(said["cluster"]["worker"], ["job-%d%s:2222" % (rank, tail) for rank in range(3)])


cli.main([each_environment_is_read, each_broken_one_is_one_error, random_lists_of_nodes_are_expanded,
          workers_train_as_under_lockstep_run, rank_0_hands_out_the_addresses,
          who_does_not_fit_is_named, a_stranger_that_says_it_is_rank_1_ends_nothing,
          a_worker_that_is_started_anew_asks_again, pods_of_an_indexed_job_know_each_other])
