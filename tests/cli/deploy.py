"""deploy/: manifests say what their controllers and this library need, and each pod that they make finds its place; batch
scripts start lost workers anew and put a stopped job back; the unit and the image name what there is."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

import yaml

import cli

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")
BARE = {name: value for name, value in cli.environment().items() if not name.startswith(("SLURM", "PET_", "JAX_", "PMI", "OMPI_"))}


def read(path):
    with open(os.path.join(DEPLOY, path), encoding="utf-8") as file:
        return file.read()


def manifest(name, kind):
    found = [one for one in yaml.safe_load_all(read("kubernetes/" + name)) if one["kind"] == kind]
    cli.equal(len(found), 1, f"{kind} in {name}")
    return found[0]


def said(*arguments, env=None):
    done = cli.lockstep(*arguments, env={**BARE, **(env or {})})
    cli.equal(done.returncode, 0, done.stderr.decode())
    return done.stdout.decode()


def check_words(words):
    """The command and its options are there."""
    options = said(words[0], "--list-options").split()
    cli.equal([word for word in words if word.startswith("--") and word not in options], [], " ".join(words))


def check_container(container):
    check_words(container["args"])
    names = {one["name"] for one in json.loads(said("settings", "--json"))["settings"]}
    names |= {"LOCKSTEP_NUM_WORKERS", "LOCKSTEP_SUBDOMAIN", "LOCKSTEP_CLUSTER"}
    given = [one["name"] for one in container.get("env", [])]
    cli.equal([name for name in given if name.startswith("LOCKSTEP_") and name not in names], [])
    assert {"name": "LOCKSTEP_HTTP", "value": ":9400"} in container["env"] and "--checkpoint" in container["args"]


def check_pod(pod):
    """Its worker is asked how it is, has its memory, and a place for checkpoints."""
    worker, = pod["containers"]
    check_container(worker)
    assert {"name": "http", "containerPort": 9400} in worker["ports"]
    cli.equal([worker[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")],
              [{"path": "/livez", "port": "http"}, {"path": "/readyz", "port": "http"}])
    cli.equal(worker["resources"]["requests"]["memory"], worker["resources"]["limits"]["memory"])
    cli.equal(sorted(one["name"] for one in worker["volumeMounts"]), sorted(one["name"] for one in pod["volumes"]))
    assert worker["args"][worker["args"].index("--checkpoint") + 1] in [one["mountPath"] for one in worker["volumeMounts"]]


def place(env, hostname=None):
    """Where lockstep check finds itself: source, rank, number of workers, the others' addresses."""
    if hostname:
        words = ["unshare", "--uts", "sh", "-c", f"hostname {hostname}; exec {cli.LOCKSTEP} check --json"]
    else:
        words = [cli.LOCKSTEP, "check", "--json"]
    done = subprocess.run(words, env={**BARE, **env}, capture_output=True, text=True, timeout=cli.LIMIT)
    if "Operation not permitted" in done.stderr:
        return None
    found = json.loads(done.stdout)
    return found["source"], found["id_in_cluster"], found["num_workers"], found["cluster"]["worker"]


def check_job(spec, prefix, subdomain):
    """An Indexed Job: only the lost pod restarts, and each finds all others."""
    pod = spec["template"]["spec"]
    worker, = pod["containers"]
    check_pod(pod)
    count = spec["completions"]
    cli.equal((spec["completionMode"], spec["parallelism"], pod["restartPolicy"]), ("Indexed", count, "Never"))
    assert spec["backoffLimitPerIndex"] >= 1
    actions = {status: rule["action"] for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule
               for status in rule["onExitCodes"]["values"]}
    cli.equal(actions, {138: "Ignore", 143: "Ignore", 2: "FailJob"})
    cli.equal({rule["onExitCodes"]["containerName"] for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule},
              {worker["name"]})
    env = {one["name"]: one["value"] for one in worker["env"] if one["name"] == "LOCKSTEP_NUM_WORKERS"}
    cli.equal(env, {"LOCKSTEP_NUM_WORKERS": str(count)})
    wanted = [f"{prefix}-{rank}.{subdomain}:{worker['ports'][0]['containerPort']}" for rank in range(count)]
    for rank in (0, count - 1):
        found = place({**env, "JOB_COMPLETION_INDEX": str(rank), "LOCKSTEP_SUBDOMAIN": subdomain}, f"{prefix}-{rank}")
        if found:
            cli.equal(found, ("indexed_job", rank, count, wanted))


def the_indexed_job_restarts_the_lost_pod_only():
    job, service = manifest("indexed-job.yaml", "Job"), manifest("indexed-job.yaml", "Service")
    name = job["metadata"]["name"]
    cli.equal(job["spec"]["template"]["spec"]["subdomain"], service["metadata"]["name"])
    cli.equal(service["spec"], {"clusterIP": "None", "publishNotReadyAddresses": True,
                                "selector": {"batch.kubernetes.io/job-name": name}})
    check_job(job["spec"], name, service["metadata"]["name"])


def the_job_set_does_too():
    found = manifest("jobset.yaml", "JobSet")
    name, (job,) = found["metadata"]["name"], found["spec"]["replicatedJobs"]
    cli.equal(found["spec"]["network"], {"enableDNSHostnames": True, "publishNotReadyAddresses": True})
    check_job(job["template"]["spec"], f"{name}-{job['name']}-0", name)


def the_operator_of_a_tfjob_writes_what_is_read():
    found = manifest("tfjob.yaml", "TFJob")
    cluster = {}
    for role, replicas in found["spec"]["tfReplicaSpecs"].items():
        container, = replicas["template"]["spec"]["containers"]
        cli.equal((container["name"], container["ports"][0]), ("tensorflow", {"name": "tfjob-port", "containerPort": 2222}))
        cli.equal(replicas["restartPolicy"], "ExitCode")
        check_pod(replicas["template"]["spec"])
        cluster[role.lower()] = [f"train-{role.lower()}-{i}.default.svc:2222" for i in range(replicas["replicas"])]
    config = {"cluster": cluster, "task": {"type": "worker", "index": 1}, "environment": "cloud"}
    cli.equal(place({"TF_CONFIG": json.dumps(config)})[:3], ("tf_config", 2, sum(map(len, cluster.values()))))


def a_train_job_gives_each_node_its_place():
    trainer = manifest("trainjob.yaml", "TrainJob")["spec"]["trainer"]
    cli.equal((trainer["command"], trainer["numProcPerNode"]), (["lockstep"], 1))
    check_container(trainer)
    env = {"PET_NNODES": str(trainer["numNodes"]), "PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
           "PET_MASTER_ADDR": "train-node-0-0.train", "PET_MASTER_PORT": "29500"}
    cli.equal(place(env), ("pytorchjob", 2, trainer["numNodes"],
                           [f"train-node-0-{rank}.train:29500" for rank in range(trainer["numNodes"])]))


class Batch:
    """A batch script with commands of the test's in place of Slurm's and of lockstep, which each write what they are told."""

    def __init__(self, script, worker):
        self.script = os.path.join(DEPLOY, "slurm", script)
        self.folder = tempfile.mkdtemp(prefix="lockstep-deploy-")
        self.command("srun", 'echo "srun $*" >> said; while [[ $1 == -* ]]; do shift; done; exec "$@"')
        self.command("scontrol", 'echo "scontrol $*" >> said')
        self.command("lockstep", f'echo "lockstep $*" >> said; {worker}')

    def command(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/env bash\n" + text + "\n")
        os.chmod(path, 0o755)

    def start(self):
        return subprocess.Popen(["bash", self.script], cwd=self.folder, start_new_session=True, stderr=subprocess.PIPE, text=True,
                                env={**BARE, "PATH": self.folder + ":" + os.environ["PATH"], "SLURM_JOB_ID": "7"})

    def lines(self):
        path = os.path.join(self.folder, "said")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def run(self):
        process = self.start()
        _, errors = process.communicate(timeout=cli.LIMIT)
        starts = [line.split(None, 1)[1] for line in self.lines() if line.startswith("lockstep ")]
        again = "scontrol requeue 7" in self.lines()
        shutil.rmtree(self.folder)
        check_words(starts[0].split())
        return process.returncode, len(starts), again, errors


def batch_scripts_start_what_was_lost_anew():
    count = "n=$(grep -c ^lockstep said); "
    for script, worker, wanted in [
            ("train.sbatch", "exit 0", (0, 1, False)), ("train.sbatch", "exit 3", (3, 1, False)),
            ("train.sbatch", "exit 143", (143, 1, True)), ("train.sbatch", "exit 138", (138, 1, False)),
            ("recovery.sbatch", "exit 0", (0, 1, False)), ("recovery.sbatch", "exit 2", (2, 1, False)),
            ("recovery.sbatch", count + "((n < 3)) && kill -KILL $$; exit 0", (0, 3, False)),
            ("recovery.sbatch", count + "((n < 2)) && exit 138; exit 5", (5, 2, False)),
            ("recovery.sbatch", "exit 138", (138, 10, False))]:
        cli.equal(Batch(script, worker).run()[:3], wanted, f"{script}: {worker}")


def a_batch_script_hands_the_signal_on():
    """Slurm tells all processes of the step; this one tells the shell alone."""
    batch = Batch("recovery.sbatch", "trap 'exit 143' TERM; touch up; while :; do sleep 0.05; done")
    process = batch.start()
    cli.wait_until(lambda: os.path.exists(os.path.join(batch.folder, "up")), "the worker")
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        os.kill(int(file.read().split()[0]), signal.SIGTERM)
    process.communicate(timeout=cli.LIMIT)
    cli.equal((process.returncode, "scontrol requeue 7" in batch.lines()), (143, True))
    shutil.rmtree(batch.folder)


def the_unit_is_right():
    unit = read("systemd/lockstep@.service")
    for line in ("Type=notify", "RestartForceExitStatus=138", "SuccessExitStatus=143", "ExecStart=/usr/bin/lockstep $LOCKSTEP_ARGS"):
        assert line in unit.splitlines(), line
    if not shutil.which("systemd-analyze"):
        print("# no systemd here: the unit was not verified by it")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lockstep@.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(unit.replace("/usr/bin/lockstep", "/bin/true").replace("Documentation=man:lockstep(1)\n", ""))
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=cli.LIMIT)
        cli.equal((done.returncode, done.stderr), (0, ""))


def the_image_names_what_there_is():
    image = read("Dockerfile")
    with open(os.path.join(ROOT, "docs", "install.md"), encoding="utf-8") as file:
        needed = re.search(r"shared libraries of Debian's packages (.*?)\.\n", file.read(), re.S)[1]
    needed = set(re.findall(r"`([\w-]+)`", needed))
    installed = re.search(r"apt-get install -y --no-install-recommends (.*?)\n &&", image, re.S)[1]
    cli.equal(set(installed.replace("\\", " ").split()), needed)
    for source in re.findall(r"^COPY (?!--from)(\S+)", image, re.M):
        assert os.path.exists(os.path.join(ROOT, source)), source
    listed = re.findall(r"^\| `([^`]+)`", read("README.md"), re.M)
    there = [os.path.relpath(os.path.join(base, name), DEPLOY) for base, _, names in os.walk(DEPLOY) for name in names]
    cli.equal(sorted(listed), sorted(name for name in there if name != "README.md"))


cli.main([the_indexed_job_restarts_the_lost_pod_only, the_job_set_does_too, the_operator_of_a_tfjob_writes_what_is_read,
          a_train_job_gives_each_node_its_place, batch_scripts_start_what_was_lost_anew, a_batch_script_hands_the_signal_on,
          the_unit_is_right, the_image_names_what_there_is])
