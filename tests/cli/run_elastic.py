"""lockstep run --host-discovery-script: hosts that come and go. The script prints a file, and the remote shell runs the
command on this machine; the hosts are 127.0.0.2 and those after it."""
import concurrent.futures
import functools
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import unittest

import cli

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from cluster import ENDLESS, expect_undisturbed, free_ports, wait_for_line  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="lockstep-elastic-")
SHELL = os.path.join(FOLDER, "shell")
POOL = concurrent.futures.ThreadPoolExecutor()


def beside_the_others(test):
    """A test that waits for the script's next second begins at once, and its turn is its end."""
    pending = POOL.submit(test)

    @functools.wraps(test)
    def result():
        pending.result()
    return result


def write(path, text, mode=None):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    if mode:
        os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)


write(SHELL, '#!/bin/sh\nhost=$1; shift\n[ -e ' + FOLDER + '/away.$host ] && echo "no route to host" >&2 && exit 255\n'
      'exec env -i PATH=/usr/bin:/bin HOME=/tmp HOST=$host sh -c "$*"\n', stat.S_IRWXU)


class Run:
    """A run, its list of hosts, and what its workers have written: a line each, RANK HOST LOCAL START RESTARTS PID."""

    def __init__(self, name, hosts, *options, script="wait_for_end", wanted=("--min-np", "1", "--max-np", "3"), command=None):
        self.path = os.path.join(FOLDER, name)
        self.hosts(hosts)
        for name in (".log", ".asked"):
            write(self.path + name, "")
        write(self.path + ".sh", f"#!/bin/sh\necho >> {self.path}.asked\ncat {self.path}.hosts\n", stat.S_IRWXU)
        body = (f'wait_for_end() {{ while [ ! -e {self.path}.end ]; do sleep 0.05; done; }}; '
                f'cp $LOCKSTEP_ADDRESSES {self.path}.addresses.$RANK; '
                f'echo "$RANK $HOST $LOCAL_RANK $LOCKSTEP_ELASTIC_START $LOCKSTEP_RESTART_COUNT $$ $LOCKSTEP_ELASTIC" >> {self.path}.log; '
                f'{script}')
        self.process = cli.start("run", *wanted, "--host-discovery-script", self.path + ".sh", "--rsh", SHELL, *options, "--",
                                 *(command or ["sh", "-c", body]))

    def hosts(self, text):
        write(self.path + ".hosts", text)

    def lines(self):
        with open(self.path + ".log", encoding="ascii") as file:
            return [line.split() for line in file.read().splitlines()]

    def wait(self, count):
        cli.wait_until(lambda: len(self.lines()) >= count, f"{count} workers of {self.path}")
        return self.lines()

    def wait_until_asked(self, count):
        """Until the script has been started so often from now on: what it said but the last time, the run has heard."""
        wanted = os.path.getsize(self.path + ".asked") + count
        cli.wait_until(lambda: os.path.getsize(self.path + ".asked") >= wanted, f"{count} starts of the script of {self.path}")

    def end(self, status=0):
        write(self.path + ".end", "")
        done, out, err = cli.finish(self.process)
        cli.equal(done, status, err.decode())
        return out.decode(), err.decode()


@beside_the_others
def hosts_come_and_go():
    run = Run("come", "127.0.0.2\n", script='[ $RANK = 2 ] && trap "" TERM; [ $RANK = 1 ] && trap "exit 0" TERM; wait_for_end')
    first = run.wait(1)
    cli.equal([line[:5] + line[6:] for line in first], [["0", "127.0.0.2", "0", "1", "0", "1:3"]])
    run.hosts("127.0.0.2\n127.0.0.3 slots=2 # more than are missing\n127.0.0.4:7\n")
    both = run.wait(3)
    cli.equal(sorted(line[:5] for line in both[1:]), [["1", "127.0.0.3", "0", "3", "0"], ["2", "127.0.0.3", "1", "3", "0"]])
    rows = open(run.path + ".addresses.2", encoding="ascii").read().splitlines()
    cli.equal([row.partition(":")[0] for row in rows], ["0 127.0.0.2", "1 127.0.0.3", "2 127.0.0.3"])
    run.hosts("127.0.0.2\n")
    pids = {line[0]: int(line[5]) for line in both}
    cli.wait_until(lambda: not cli.alive(pids["1"]) and not cli.alive(pids["2"]), "the workers of the host that left to end")
    assert cli.alive(pids["0"])
    run.hosts("127.0.0.5:1\n127.0.0.2\n")
    anew = run.wait(4)[3]
    cli.equal(anew[:5], ["1", "127.0.0.5", "0", "3", "1"])
    cli.contains(open(run.path + ".addresses.1", encoding="ascii").read(), "\n1 127.0.0.5:")
    _, err = run.end()
    cli.contains(err, "host 127.0.0.3 is not on the list any more: its workers get SIGTERM")
    assert re.search(r"worker:2 \(rank 2, pid \d+ on 127.0.0.3\) was killed by signal 9 \(SIGKILL\); 1 of 3 workers are left, 1 must be", err), err
    cli.equal(err.count("left out"), 0, err)


@beside_the_others
def a_host_that_loses_workers_is_left_out_for_a_while():
    """Who was killed starts anew: on another host with a slot, or on its own one when it has cooled down."""
    run = Run("cooled", "127.0.0.2\n127.0.0.3\n", "--blacklist-cooldown-range", "2:3")
    pids = {line[0]: int(line[5]) for line in run.wait(2)}
    begin = time.monotonic()
    os.kill(pids["1"], signal.SIGKILL)
    anew = run.wait(3)[2]
    assert 2 <= time.monotonic() - begin < 6 * cli.PACE
    cli.equal(anew[:5], ["1", "127.0.0.3", "0", "2", "1"])
    run.hosts("127.0.0.2\n127.0.0.3\n127.0.0.4\n")
    run.wait(4)
    os.kill(int(anew[5]), signal.SIGKILL)
    run.hosts("127.0.0.2\n127.0.0.3\n127.0.0.4:2\n")
    cli.equal(run.wait(5)[4][:3], ["1", "127.0.0.4", "1"])
    _, err = run.end()
    cli.contains(err, "its host is left out for 2 s")
    cli.contains(err, "its host is left out for 3 s")


@beside_the_others
def too_few_slots_are_named():
    """At the start, and later; the number that is missing is named."""
    early = Run("early", "127.0.0.2\n# 127.0.0.3:9\n", "--elastic-timeout", "1", wanted=("--min-np", "4", "--max-np", "5"))
    late = Run("late", "127.0.0.2\n127.0.0.3\n", "--elastic-timeout", "1", wanted=("--min-np", "2", "--max-np", "2"))
    late.wait(2)
    late.hosts("127.0.0.3\n")
    _, err = early.end(1)
    assert re.fullmatch(r"lockstep run: 3 slots are missing: host discovery script \S+ names 1 hosts with 1 slots, and --min-np is 4; "
                        r"waited 1 s \(--elastic-timeout\)\n", err), err
    done, _, err = cli.finish(late.process)
    cli.equal(done, 143, err)
    cli.contains(err.decode(), "1 slots are missing: 1 workers run, --min-np is 2, and the hosts have no more for 1 s (--elastic-timeout)")


@beside_the_others
def who_moved_away_may_speak_late():
    """A child of a killed worker has its output still when the rank runs on another host: the host and its other worker stay."""
    late = os.path.join(FOLDER, "late")
    child = f'setsid sh -c "echo \\$\\$ > {late}.pid; while [ ! -e {late} ]; do sleep 0.05; done; echo late; echo late >&2" &'
    run = Run("speaks", "127.0.0.2:2\n127.0.0.3\n", "--blacklist-cooldown-range", "100:100", wanted=("--min-np", "1", "--max-np", "2"),
              script=f'[ $RANK$LOCKSTEP_RESTART_COUNT = 10 ] && {{ {child} }}; wait_for_end')
    pids = {line[0]: int(line[5]) for line in run.wait(2)}
    cli.wait_until(lambda: os.path.exists(late + ".pid") and os.path.getsize(late + ".pid"), "the child to begin")
    os.kill(pids["1"], signal.SIGKILL)
    cli.equal(run.wait(3)[2][:2], ["1", "127.0.0.3"])
    write(late, "")
    with open(late + ".pid", encoding="ascii") as file:
        pid = int(file.read())
    cli.wait_until(lambda: not cli.alive(pid), "the child to end")
    _, err = run.end()
    assert "127.0.0.2 is lost" not in err, err


@beside_the_others
def when_all_are_lost_those_that_fit_begin_anew():
    """With fewer than before, too: nobody is left who would be waited for."""
    run = Run("anew", "127.0.0.2\n127.0.0.3\n", "--blacklist-cooldown-range", "1:1")
    pids = [int(line[5]) for line in run.wait(2)]
    run.hosts("127.0.0.4\n")
    anew = run.wait(3)[2]
    cli.equal(anew[:5], ["0", "127.0.0.4", "0", "1", "1"])
    assert not any(map(cli.alive, pids))
    run.end()


@beside_the_others
def a_signal_ends_a_run_without_workers():
    run = Run("nobody", "127.0.0.2\n")
    pid = int(run.wait(1)[0][5])
    run.hosts("")
    cli.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the worker's end to be seen")
    run.wait_until_asked(2)
    cli.equal(run.process.poll(), None)
    run.process.send_signal(signal.SIGTERM)
    done, _, err = cli.finish(run.process)
    cli.equal(done, 143, err)


@beside_the_others
def who_comes_too_late_is_ended():
    """Who comes when the others finish waits for nobody: it may not have joined them."""
    run = Run("late_comer", "127.0.0.2\n", "--grace", "0", script='[ $RANK = 0 ] || exec sleep 300; wait_for_end')
    run.wait(1)
    run.hosts("127.0.0.2\n127.0.0.3\n")
    pid = int(run.wait(2)[1][5])
    _, err = run.end()
    assert not cli.alive(pid)
    cli.contains(err, "the others have finished: SIGTERM to worker:1, which came last")


@beside_the_others
def a_host_that_cannot_be_reached_is_tried_again():
    """A host that cannot be reached is left out, and tried again; the others do not notice."""
    write(FOLDER + "/away.127.0.0.9", "")
    run = Run("away", "127.0.0.2\n", "--start-timeout", "5", "--blacklist-cooldown-range", "0:0")
    run.wait(1)
    run.hosts("127.0.0.2\n127.0.0.9\n")
    wait_for_line(run.process.stderr, b"host 127.0.0.9 is lost: no route to host")
    os.unlink(FOLDER + "/away.127.0.0.9")
    cli.equal(run.wait(2)[1][:2], ["1", "127.0.0.9"])
    run.end()


@beside_the_others
def a_script_that_fails():
    """The first one is an error; later ones are said once, and the hosts stay."""
    for text, part in (("#!/bin/sh\nexit 7\n", "it ended with exit status 7"), ("#!/bin/sh\nkill -9 $$\n", "it ended with signal 9"),
                       ("#!/bin/sh\necho a; echo b:0\n", "its output:2: b needs a number of slots from 1 to 1024"),
                       ("#!/no/such/interpreter\n", "it ended with exit status 126"), ("#!/bin/sh\nsleep 100\n", "it takes longer than 1 s (--start-timeout)"),
                       ("#!/bin/sh\nyes\n", "it prints more than 256 KB")):
        path = os.path.join(FOLDER, "broken")
        write(path, text, stat.S_IRWXU)
        done = cli.lockstep("run", "--max-np", "2", "--host-discovery-script", path, "--start-timeout", "1", "true")
        said = done.stderr.decode().splitlines()
        cli.equal((done.returncode, done.stdout, said[-1]), (1, b"", f"lockstep run: host discovery script {path}: {said[-1].partition(path + ': ')[2]}"))
        cli.contains(said[-1], part)
    run = Run("later", "127.0.0.2\n")
    run.wait(1)
    for text in ("a b\n", "127.0.0.2\n", "127.0.0.2\n127.0.0.3\n"):
        run.hosts(text)
        run.wait_until_asked(3)  # the first time it may have said what it said before
    run.wait(2)
    _, err = run.end()
    cli.equal(err.count("host discovery script"), 1, err)
    cli.contains(err, "its output:1: 'b' behind the host: only slots=N and max_slots=N may stand there; the hosts before stay")


def joins_a_training():
    """Endless until it is stopped. From its checkpoint it has the weights of one that had four workers from the beginning."""
    folder = os.path.join(FOLDER, "checkpoints")
    train = ["lockstep", "train", "--model", "mlp", "--dataset", "digits", "--limit", "1280", "--batch-size", "64", "--no-validation", "--json"]
    run = Run("train", "127.0.0.2:2\n127.0.0.4\n", "--no-prefix", wanted=("--min-np", "1", "--max-np", "4"),
              command=[*train, *ENDLESS, "--checkpoint", folder, "--checkpoint-steps", "1000000"])
    out, err = run.process.stdout, run.process.stderr
    wait_for_line(out, b"Epoch 2/")
    run.hosts("127.0.0.2:2\n127.0.0.3\n")
    threading.Thread(target=out.read, daemon=True).start()  # so that no pipe is full
    more = b""
    while not all(part in more for part in (b"host 127.0.0.3: it has joined", b"took the state of the training over")):
        line = err.readline()
        assert line, more
        more += line
    run.process.send_signal(signal.SIGTERM)
    more += err.read()
    cli.equal(run.process.wait(cli.LIMIT), 143, more)
    assert b"workers go on after" in more or b"all 4 workers are there" in more, more
    expect_undisturbed(unittest.TestCase(), [cli.LOCKSTEP, *train[1:], "--devices", "4"], folder, 20)


def command_lines():
    path = os.path.join(FOLDER, "good")
    write(path, "#!/bin/sh\necho 127.0.0.2\n", stat.S_IRWXU)
    script, most = ["--host-discovery-script", path], ["--max-np", "2"]
    for options, part in (
            ([*script], "'--host-discovery-script' needs '--max-np N'"), ([*most], "'--max-np' needs '--host-discovery-script FILE'"),
            (["-np", "1", "--min-np", "1"], "'--min-np' needs"), (["-np", "1", "--elastic-timeout", "1"], "'--elastic-timeout' needs"),
            (["-np", "1", "--blacklist-cooldown-range", "1:2"], "'--blacklist-cooldown-range' needs"),
            ([*script, *most, "--min-np", "3"], "'--min-np' needs a number up to --max-np 2, not 3"), ([*script, "--max-np", "0"], "from 1 to 1024"),
            ([*script, *most, "-np", "3"], "'--min-np' needs a number up to --max-np 2, not 3"), ([*script, *most, "--min-np", "x"], "--min-np"),
            *(([*script, *most, *more], f"option '{more[0].replace('-H', '--hosts')}' does not go with '--host-discovery-script'") for more in (
                ["-H", "a"], ["--hostfile", path], ["--ps", "1"], ["--elastic", "1"], ["--restart", "2"], ["--check-hosts"])),
            *(([*script, *most, "--blacklist-cooldown-range", value], f"needs MIN:MAX seconds up to 86400, such as 10:300, not '{value}'")
              for value in ("", "5", "5:", ":5", "6:5", "-1:5", "1:x", "1:2:3", "1:99999999", "nan:1", "1:inf")),
            ([*script, *most, "--elastic-timeout", "-1"], "--elastic-timeout"), (["--host-discovery-script", "/no/script", *most], "cannot run '/no/script': No such file"),
            (["--host-discovery-script", SHELL + ".none", *most], "cannot run"), (["--host-discovery-script", "/etc/passwd", *most], "cannot run '/etc/passwd': Permission denied")):
        done = cli.lockstep("run", *options, "true")
        cli.equal((done.returncode, done.stdout, done.stderr.count(b"\n")), (2, b"", 1), (options, done.stderr))
        cli.contains(done.stderr.decode(), part)
    done = cli.lockstep("run", *script, *most)
    cli.equal((done.returncode, done.stderr.count(b"no command to start")), (2, 1))


def addresses_that_are_none():
    """LOCKSTEP_ADDRESSES is read at the start, and counts before TF_CONFIG."""
    path = os.path.join(FOLDER, "addresses")
    workers = '"worker":["worker-0.invalid:1","worker-1.invalid:1"]'
    config = f'{{"cluster":{{{workers}}},"task":{{"type":"worker","index":0}}}}'
    train = ["train", "--dataset", "digits", "--limit", "64", "--epochs", "1", "--no-validation"]
    surroundings = {"TF_CONFIG": config, "LOCKSTEP_ELASTIC": "1:2", "LOCKSTEP_ADDRESSES": path, "LOCKSTEP_ELASTIC_START": "1"}
    for text, part in (("x\n", "line 1 of LOCKSTEP_ADDRESSES"), ("0 127.0.0.1:3\n2 127.0.0.1:4\n", "'2 127.0.0.1:4' is not RANK HOST:PORT, with a rank from 0 to 1"),
                       ("0127.0.0.1:3\n", "is not RANK HOST:PORT"), ("0 127.0.0.1\n", "'127.0.0.1'"), ("\n0 127.0.0.1:0\n", "line 2 of LOCKSTEP_ADDRESSES"),
                       ("-1 127.0.0.1:3\n", "with a rank from 0 to 1")):
        write(path, text)
        done = cli.lockstep(*train, env=cli.environment(**surroundings))
        cli.equal((done.returncode, done.stderr.count(b"LOCKSTEP_ADDRESSES")), (2, 1), (text, done.stderr))
        cli.contains(done.stderr.decode(), part)
    for changed, part in (({"LOCKSTEP_ADDRESSES": path + ".none"}, "LOCKSTEP_ADDRESSES='" + path + ".none' cannot be read: No such file"),
                          ({"LOCKSTEP_ELASTIC_START": "3"}, "LOCKSTEP_ELASTIC_START='3' is not from 1 to 2"),
                          ({"LOCKSTEP_ELASTIC": "2:2"}, "LOCKSTEP_ELASTIC_START='1' is not from 2 to 2")):
        done = cli.lockstep(*train, env=cli.environment(**{**surroundings, **changed}))
        cli.equal(done.returncode, 2, done.stderr)
        cli.contains(done.stderr.decode(), part)
    write(path, f"0 127.0.0.1:{free_ports(1)[0]}\n")
    done = cli.lockstep(*train, env=cli.environment(**surroundings))
    cli.equal(done.returncode, 0, done.stderr)
    cli.contains(done.stderr, b"2 replicas in sync on 1 worker")


SANITIZED = os.environ.get("LOCKSTEP_TEST_SANITIZED")  # a training would end while somebody starts; recovery/elastic_* join there
try:
    cli.main([command_lines, addresses_that_are_none, *([] if SANITIZED else [joins_a_training]), hosts_come_and_go, a_host_that_loses_workers_is_left_out_for_a_while, who_moved_away_may_speak_late,
              too_few_slots_are_named,
              when_all_are_lost_those_that_fit_begin_anew, a_host_that_cannot_be_reached_is_tried_again, a_script_that_fails, a_signal_ends_a_run_without_workers,
              who_comes_too_late_is_ended])
finally:
    shutil.rmtree(FOLDER)
