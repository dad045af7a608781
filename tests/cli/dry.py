"""lockstep train --dry-run: what training would say before its first step, without a cluster and without a file."""
import json
import os
import shutil
import tempfile

import cli
from cli import equal

FOLDER = tempfile.mkdtemp(prefix="lockstep-dry-")
FEW = ("--limit", "64", "--epochs", "1", "--verbose", "-1")
OUTPUTS = ("--csv", "log.csv", "--trace", "trace.json", "--checkpoint", "kept", "--tensorboard", "board", "--save-best", "best.npz",
           "--save-each", "{epoch}.npz", "--early-stopping", "2", "--monitor", "val_accuracy")


def train(*options, dry=True, env=None):
    return cli.lockstep("train", *FEW, *(["--dry-run"] if dry else []), *options, cwd=FOLDER, env=env)


def it_says_what_would_be_trained_and_writes_nothing():
    settings = {"LOCKSTEP_METRICS_FILE": FOLDER + "/metrics", "LOCKSTEP_TRACE": FOLDER + "/setting.json"}
    done = train(*OUTPUTS, "--no-validation", "--monitor", "loss", env=cli.environment(**settings))
    equal(done.returncode, 0, done.stderr)
    done = train(*OUTPUTS, env=cli.environment(**settings))
    equal((done.returncode, os.listdir(FOLDER)), (0, []), done.stderr)
    cli.contains(done.stderr, b"64 examples an epoch, 1 epochs, 10000 examples to validate with")
    cli.contains(done.stderr, b"Total params: 109,386")
    cli.contains(done.stdout, b"1 worker, 1 replica")
    plan = cli.lockstep("plan", *FEW[:2], "--json")
    equal(json.loads(train("--json").stdout), json.loads(plan.stdout))


def no_task_is_waited_for():
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"], "ps": ["127.0.0.1:3"]}
    for kind, index in (("worker", 1), ("ps", 0)):
        env = cli.environment(TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
        done = train("--strategy", "parameter-server", env=env)
        equal(done.returncode, 0, done.stderr)
        cli.contains(done.stdout, b"2 workers, 2 replicas, 1 parameter server")


def last_error(done):
    return [line.replace(b"at the beginning: ", b"") for line in done.stderr.splitlines() if b"error: " in line]


def it_finds_what_training_finds():
    equal(train("--save-each", "small.npz", "--hidden", "8", dry=False).returncode, 0)
    os.makedirs(FOLDER + "/alone")
    for options in (["--monitor", "nothing", "--early-stopping", "2"], ["--monitor", "val_loss", "--save-best", "b.npz", "--no-validation"],
                    ["--weights", "small.npz"], ["--dataset", "alone"], ["--model", "mobilenet_v2", "--weights", "small.npz"],
                    ["--validation-split", "0.5", "--limit", "1"], ["--devices", "gpu:99"]):
        real, dry = train(*options, dry=False), train(*options)
        assert real.returncode and last_error(real), (options, real.stderr)
        equal((dry.returncode, dry.stdout, last_error(dry)), (real.returncode, b"", last_error(real)), options)
    both = [train("--weights", "none.npz", dry=dry) for dry in (False, True)]
    equal([(done.returncode, done.stderr) for done in both], [(2, both[0].stderr)] * 2)
    for option in ("--csv", "--checkpoint", "--tensorboard", "--save-best"):
        real, dry = train(option, "/nowhere/x.npz", dry=False), train(option, "/nowhere/x.npz")
        equal((real.returncode, dry.returncode), (1, 1), option)
        cli.contains(dry.stderr, option.encode() + b" '/nowhere/x.npz': No such file or directory")


try:
    cli.main([it_says_what_would_be_trained_and_writes_nothing, no_task_is_waited_for, it_finds_what_training_finds])
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
