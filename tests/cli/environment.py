"""What a command says of the environment: a job of Slurm's without a step, and settings that there are not."""
import datetime
import json
import os
import re
import socket
import sys
import tempfile
import threading

import cli

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from cluster import free_ports  # noqa: E402

TRAIN = ("train", "--dataset", "digits", "--limit", "8", "--epochs", "1", "--no-validation", "--verbose", "-1")


def train(*before, **variables):
    return cli.lockstep(*before, *TRAIN, env=cli.environment(**variables))


def lines(text, words):
    return [line for line in text.decode().splitlines() if words in line]


def who_is_in_no_step_of_srun_is_warned():
    """As in the body of a batch script, which is no step of Slurm's."""
    table = ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, {"SLURM_NTASKS": "4"})
    for variables in table:
        done = train(**variables)
        said = lines(done.stderr, "works alone")
        cli.equal((done.returncode, len(said)), (0, 1), done.stderr)
        assert "warning: " in said[0] and "SLURM_NTASKS is 4" in said[0], said
        done = train(LOCKSTEP_REQUIRE_CLUSTER="1", **variables)
        cli.equal(done.returncode, 2)
        cli.contains(done.stderr, b"INVALID_ARGUMENT: LOCKSTEP_REQUIRE_CLUSTER is 1, and neither TF_CONFIG nor a launcher")


def who_is_alone_is_not_warned():
    table = ({}, {"WORLD_SIZE": "1", "RANK": "0"}, {"SLURM_NTASKS": "1"}, {"SLURM_NTASKS": "many"},
             {"SLURM_NTASKS": "4", "SLURM_PROCID": "2"},  # the launcher's first process speaks for all
             {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "LOCKSTEP_CLUSTER": "none"},
             {"WORLD_SIZE": "4", "RANK": "0", "MASTER_ADDR": "far", "MASTER_PORT": "1", "LOCKSTEP_CLUSTER": "none"},
             {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "TF_CONFIG": '{"cluster": {}}'})
    for variables in table:
        done = train(**variables)
        cli.equal((done.returncode, lines(done.stderr, "works alone")), (0, []), variables)
    cli.equal(train(LOCKSTEP_REQUIRE_CLUSTER="1").returncode, 2)
    done = train("run", "-np", "2", "--", "lockstep", WORLD_SIZE="4", RANK="0", LOCKSTEP_REQUIRE_CLUSTER="1")
    cli.equal((done.returncode, lines(done.stderr, "works alone")), (0, []), done.stderr)


def a_misspelt_setting_is_named_with_its_nearest():
    for name, nearest in (("LOCKSTEP_LGO", "LOCKSTEP_LOG"), ("LOCKSTEP_JOIN_TIMEOT", "LOCKSTEP_JOIN_TIMEOUT"),
                          ("LOCKSTEP_TRACES", "LOCKSTEP_TRACE"), ("LOCKSTEP_SOMETHING_ELSE", None)):
        said = lines(train(**{name: "1"}).stderr, name + " in the environment is no setting")
        cli.equal(len(said), 1)
        cli.equal(f"is {nearest} meant?" in said[0] if nearest else "meant" not in said[0], True, said)
    done = train("run", "-np", "2", "--", "lockstep", LOCKSTEP_LGO="1")
    cli.equal(len(lines(done.stderr, "LOCKSTEP_LGO")), 1, done.stderr)


def others_variables_are_let_pass():
    done = train(LOCKSTEP_SERVICE_HOST="10.0.0.1", LOCKSTEP_PORT="tcp://10.0.0.1:2222", LOCKSTEP_PORT_2222_TCP_ADDR="10.0.0.1",
                 LOCKSTEP_WORKER_0_SERVICE_PORT="2222", LOCKSTEP_TEST_AT="")
    cli.equal(lines(done.stderr, "no setting"), [], done.stderr)


def what_all_would_say_the_first_says():
    """A line of the log stands there once, but for those that name the rank; at debug all say all."""
    for level, times in (("info", 1), ("debug", 3)):
        done = train("run", "-np", "3", "--no-prefix", "--", "lockstep", LOCKSTEP_LOG=level)
        said = [line.partition(": worker:")[2][3:].removeprefix("debug: ") for line in done.stderr.decode().splitlines()]
        for word in ("data: digits", "workers exchange gradients through", "AUTO measured for"):
            cli.equal(len([line for line in said if line.startswith(word)]), times, done.stderr)
        twice = {line for line in said if said.count(line) > 1}
        assert level == "debug" or not twice, twice


def lines_of_the_log_are_objects():
    """Every line of stderr, the last error too; with bytes that JSON escapes."""
    config = '{"cluster": {"worker": ["a\\u0007\\"b:1"]}, "task": {"type": "worker", "index": 0}}'
    for code, variables in ((0, {}), (2, {"TF_CONFIG": config})):
        done = train(LOCKSTEP_LOG="debug", LOCKSTEP_LOG_FORMAT="json", **variables)
        said = [json.loads(line) for line in done.stderr.decode().splitlines()]
        cli.equal((done.returncode, bool(said)), (code, True), done.stderr)
        for line in said:
            cli.equal(list(line), ["time", "level", "task", "message"])
            assert line["level"] in ("error", "warning", "info", "debug"), line
            datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
        cli.equal(said[-1]["level"] == "error", code == 2, said)
    alone = json.dumps({"cluster": {"worker": ["127.0.0.1:%d" % port for port in free_ports(2)]}, "task": {"type": "worker", "index": 1}})
    done = train(LOCKSTEP_LOG_FORMAT="json", TF_CONFIG=alone, LOCKSTEP_JOIN_TIMEOUT="1.5", LOCKSTEP_REPORT_INTERVAL="0.1")
    said = [json.loads(line) for line in done.stderr.decode().splitlines()]
    cli.equal((done.returncode, said[-1]["level"], said[-1]["task"]), (138, "error", "worker:1"), said)
    cli.equal([line for line in said if "forms anew" in line["message"]], [], said)  # nothing had formed: the error says it
    done = train("run", "-np", "2", "--no-prefix", "--", "lockstep", LOCKSTEP_LOG="debug", LOCKSTEP_LOG_FORMAT="json")
    cli.equal({json.loads(line)["task"] for line in done.stderr.decode().splitlines()} >= {"worker:0", "worker:1"}, True, done.stderr)


def a_service_manager_is_told():
    """READY with the rank when the workers have joined, signs of life, and the end (sd_notify(3))."""
    for name in (os.path.join(tempfile.mkdtemp(), "notify"), "@lockstep-%d" % os.getpid()):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind("\0" + name[1:] if name[0] == "@" else name)
            said = []
            reader = threading.Thread(target=lambda: said.extend(iter(lambda: manager.recv(2048).decode(), "end")))
            reader.start()
            done = train("run", "-np", "2", "--", "lockstep", NOTIFY_SOCKET=name, WATCHDOG_USEC="20000", LOCKSTEP_LOG="error")
            manager.sendto(b"end", manager.getsockname())
            reader.join()
        cli.equal(done.returncode, 0, done.stderr)
        ready = sorted(re.sub("[0-9]+$", "N", text) for text in said if text.startswith("READY=1"))
        cli.equal(ready, ["READY=1\nSTATUS=rank %d of 2, generation N" % rank for rank in (0, 1)], said)
        cli.equal((said.count("STOPPING=1"), said.count("WATCHDOG=1") >= 2), (2, True), said)
    for name in ("/nowhere/at/all", "relative", "@", "/" + "x" * 200):
        done = train(NOTIFY_SOCKET=name)
        cli.equal(done.returncode, 0, done.stderr)


cli.main([who_is_in_no_step_of_srun_is_warned, who_is_alone_is_not_warned,
          a_misspelt_setting_is_named_with_its_nearest, others_variables_are_let_pass, what_all_would_say_the_first_says, lines_of_the_log_are_objects, a_service_manager_is_told])
