"""lockstep run -H: workers on hosts, each with an agent behind a remote shell. Here the shell is a script that runs the
command on this machine, with an environment of its own; the hosts are 127.0.0.2, 127.0.0.3 and names that fail."""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import tempfile
import time

import cli

HOSTS = "127.0.0.2:2,127.0.0.3:2"
FOLDER = tempfile.mkdtemp(prefix="lockstep-hosts-")
SHELL = os.path.join(FOLDER, "shell")
LOG = os.path.join(FOLDER, "log")
with open(SHELL, "w", encoding="ascii") as script:
    script.write(f'''#!/bin/sh
host=$1; shift
echo "$host $*" >> "${{HOSTS_LOG:-/dev/null}}"
case $host in
  127.0.0.4) if [ -e $HOSTS_AWAY ]; then echo "ssh: no route to host" >&2; exit 255; fi;;
  refused*) echo "banner of a gateway" >&2; echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255;;
  wordless) exit 3;;
  talking) echo "Welcome to $host";;
  silent) exec sleep 100;;
  lingering) env -i PATH=/usr/bin:/bin HOME=/tmp sh -c "$*"; sleep 100; exit;;
esac
exec env -i PATH=/usr/bin:/bin HOME=/tmp HOST=$host sh -c "$*"
''')
os.chmod(SHELL, stat.S_IRWXU)


def arguments(count, script, *options, hosts=HOSTS, shell=SHELL):
    return ["run", "-np", str(count), "-H", hosts, "--rsh", shell, *options, "--", "sh", "-c", script]


def run(count, script, *options, hosts=HOSTS, shell=SHELL, **kwargs):
    return cli.lockstep(*arguments(count, script, *options, hosts=hosts, shell=shell), **kwargs)


def lines(done, status=0):
    cli.equal(done.returncode, status, done)
    return sorted(done.stdout.decode().splitlines())


def the_machine_has_a_name_for_the_others():
    """localhost is no address for workers of another host."""
    for hosts, want in (("localhost,127.0.0.3", [os.uname().nodename, "127.0.0.3"]), ("localhost:2", ["127.0.0.1"] * 2)):
        config = json.loads(lines(run(2, 'echo "$TF_CONFIG"', "--no-prefix", hosts=hosts))[0])
        cli.equal([address.partition(":")[0] for address in config["cluster"]["worker"]], want)


def ranks_fill_the_hosts():
    done = run(3, 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $HOST $LOCKSTEP_CLUSTER $TF_CONFIG"; echo e >&2')
    words = [line.split(" ", 7) for line in lines(done)]
    cli.equal([each[:7] for each in words], [["[0]", "0", "3", "0", "2", "127.0.0.2", "tf_config"],
                                             ["[1]", "1", "3", "1", "2", "127.0.0.2", "tf_config"],
                                             ["[2]", "2", "3", "0", "1", "127.0.0.3", "tf_config"]])
    configs = [json.loads(each[7]) for each in words]
    cli.equal([config["task"]["index"] for config in configs], [0, 1, 2])
    addresses = configs[0]["cluster"]["worker"]
    cli.equal([address.partition(":")[0] for address in addresses], ["127.0.0.2", "127.0.0.2", "127.0.0.3"])
    cli.equal(len(set(addresses)), 3)
    cli.equal(sorted(done.stderr.splitlines()), [b"[0] e", b"[1] e", b"[2] e"])


def remote_shells_go_through_srun_and_kubectl():
    """Stand-ins check the words, and run the command as the real ones do, without a shell."""
    deploy, bin = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "rsh"), os.path.join(FOLDER, "bin")
    os.makedirs(bin)
    srun = '[ "$1 $2 $3 $4 $6" = "--unbuffered --overlap --nodes=1 --ntasks=1 sh" ] || exit 9; echo "${5#--nodelist=}" >> "$SEEN"; shift 5; exec "$@"'
    kubectl = '[ "$1 $2 $3 $4 $6" = "exec -i -n mine --" ] || exit 9; echo "$5" >> "$SEEN"; shift 6; exec "$@"'
    for name, words in (("srun", srun), ("kubectl", kubectl)):
        with open(os.path.join(bin, name), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + words + "\n")
        os.chmod(file.name, stat.S_IRWXU)
        seen = os.path.join(bin, "seen by " + name)
        env = cli.environment(PATH=bin + ":" + os.environ["PATH"], KUBECTL_OPTIONS="-n mine", SEEN=seen)
        cli.equal(lines(run(3, "echo $RANK", "--no-prefix", shell=os.path.join(deploy, name), env=env)), ["0", "1", "2"])
        with open(seen, encoding="ascii") as file:
            cli.equal(sorted(file), ["127.0.0.2\n", "127.0.0.3\n"])


def the_environment_goes_through_the_agents_input():
    """Not through a command line, which every user of a machine can read."""
    env = cli.environment(LOCKSTEP_TOKEN="a secret", ODD="two\nlines = 'odd'", HOME="/mine", CUDA_VISIBLE_DEVICES="5", HOSTS_LOG=LOG)
    script = 'echo "$LOCKSTEP_TOKEN,$ODD,$HOME,$CUDA_VISIBLE_DEVICES,$MORE,$PWD,$OMP_NUM_THREADS" | md5sum'
    want = f"a secret,two\nlines = 'odd',/tmp,5,7=8,{os.getcwd()},1\n"
    done = run(4, script, "-x", "MORE=7=8", "-x", "CUDA_VISIBLE_DEVICES", "--no-prefix", env=env)
    cli.equal(set(lines(done)), {hashlib.md5(want.encode()).hexdigest() + "  -"})
    with open(LOG, encoding="ascii") as file:
        log = file.read()
    cli.equal(log.count("\n"), 2)
    assert "secret" not in log and "ODD" not in log and "md5sum" not in log, log
    done = run(1, 'echo "[$CUDA_VISIBLE_DEVICES]"', "-x", "ABSENT", "--no-prefix", env=env)
    cli.equal((lines(done), done.stderr), (["[]"], b"lockstep run: warning: -x ABSENT: there is no such variable\n"))


def workers_start_in_the_launchers_folder():
    """Where the host has none of that name, they start in HOME, and it is said."""
    cli.equal(lines(run(1, "pwd", "--no-prefix", cwd=FOLDER)), [FOLDER])
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "gone"))
        remover = os.path.join(folder, "remover")
        with open(remover, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\ncd /; rmdir {folder}/gone; exec {SHELL} "$@"\n')
        os.chmod(remover, stat.S_IRWXU)
        done = run(1, "pwd", "--no-prefix", shell=remover, cwd=os.path.join(folder, "gone"))
        cli.equal(lines(done), ["/tmp"])


def statuses():
    """The others end as who has lost a worker, once the launcher has said so."""
    with tempfile.NamedTemporaryFile() as said:
        script = f'[ $RANK = 2 ] && exit 3; until grep -q "exit status 3" {said.name}; do sleep 0.02; done; exit 138'
        cli.equal(run(4, script, stderr=said).returncode, 3)
        text = open(said.name, "rb").read()
        assert re.search(rb"worker:2 \(rank 2, pid \d+ on 127.0.0.3\) ended with exit status 3", text), text
    done = run(4, '[ $RANK = 1 ] && kill -9 $$; sleep 100', "--grace", "0.1")
    cli.equal(done.returncode, 137)
    cli.contains(done.stderr, b"on 127.0.0.2) was killed by signal 9 (SIGKILL)")
    done = cli.lockstep("run", "-np", "4", "-H", HOSTS, "--rsh", SHELL, "no-such-command")
    cli.equal((done.returncode, done.stderr.count(b"\n"), done.stderr.count(b"cannot start 'no-such-command'")), (127, 2, 2),
              done.stderr)


def hosts_that_cannot_be_had_are_named():
    """One line each, with the remote shell's words, before anything starts."""
    with tempfile.NamedTemporaryFile() as file:
        hosts = "127.0.0.2,refused1,wordless,talking,refused2,silent"
        begin = time.monotonic()
        done = run(6, f"echo >> {file.name}", "--start-timeout", "4", hosts=hosts)
        assert 4 <= time.monotonic() - begin < 20 * cli.PACE
        cli.equal((done.returncode, done.stdout, os.path.getsize(file.name)), (1, b"", 0))
        said = dict(line.split(": ", 2)[1:] for line in done.stderr.decode().splitlines())
        cli.equal(sorted(said), ["host " + name for name in ("refused1", "refused2", "silent", "talking", "wordless")])
        cli.equal(said["host refused1"], "ssh: connect to host refused1 port 22: Connection refused")
        cli.equal(said["host silent"], "no answer in 4 s (--start-timeout)")
        cli.contains(said["host talking"], "its shell printed 'Welcome to talking' before the agent's answer")
        cli.contains(said["host wordless"], "exit status 3")
    done = run(1, "true", shell="/no/such/shell")
    cli.equal((done.returncode, done.stderr), (1, b"lockstep run: host 127.0.0.2: cannot start /no/such/shell: No such file or directory\n"))
    done = run(2, "true", "--network-interface", "wan9", hosts="127.0.0.2")
    cli.equal(done.returncode, 2)
    done = run(1, "true", "--network-interface", "wan9")
    cli.equal(done.returncode, 1)
    cli.contains(done.stderr, b"host 127.0.0.2: no address fits --network-interface wan9; there are lo (127.0.0.1)")


def the_interface_is_the_address():
    for interface in ("lo", "127.0.0.0/8", "127.0.0.1"):
        done = run(3, 'echo "$TF_CONFIG"', "--network-interface", interface, "--no-prefix")
        for line in lines(done):
            assert all(address.startswith("127.0.0.1:") for address in json.loads(line)["cluster"]["worker"]), line


def check_hosts():
    done = cli.lockstep("run", "-H", "127.0.0.2:3,me@127.0.0.3", "--rsh", SHELL, "--check-hosts")
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    cli.equal((done.returncode, done.stderr, [row[0] for row in rows]), (0, b"", ["host", "127.0.0.2", "me@127.0.0.3"]))
    cli.equal([(row[1], row[2], row[3], row[4]) for row in rows[1:]],
              [(os.uname().nodename, "127.0.0.2", "3", str(os.cpu_count())), (os.uname().nodename, "127.0.0.3", "1", str(os.cpu_count()))])


def verbose_tells_the_way():
    done = cli.lockstep("run", "-np", "2", "-H", "localhost:2", "--verbose", "--", "sh", "-c", 'echo "$TF_CONFIG"')
    cli.equal(done.returncode, 0, done.stderr)
    cli.contains(done.stderr, b"lockstep run: host localhost: starting an agent: here\n")
    assert re.search(rb"host localhost: \S+ at 127.0.0.1, \d+ processors, answered in 0\.\d\d s, ranks 0 to 1\n", done.stderr), done.stderr
    cli.contains(done.stdout, b"127.0.0.1:")


def input_reaches_rank_0():
    data = os.urandom(700001)
    done = run(3, "md5sum", "--no-prefix", stdin=None, input=data)
    cli.equal(lines(done), sorted([hashlib.md5(data).hexdigest() + "  -"] + [hashlib.md5(b"").hexdigest() + "  -"] * 2))
    with tempfile.TemporaryFile() as file:  # nobody reads it
        file.write(data)
        file.seek(0)
        has_some = "[ $RANK = 1 ] || exec bash -c 'until read -t 0; do sleep 0.02; done'"
        cli.equal(lines(run(2, has_some, stdin=file)), [])


def output_is_whole():
    script = 'i=0; while [ $i -lt 3000 ]; do echo "line $i of $RANK with words behind it"; i=$((i + 1)); done; printf end'
    said = lines(run(4, script, "--no-prefix"))
    cli.equal(said, sorted([f"line {i} of {rank} with words behind it" for i in range(3000) for rank in range(4)] + ["end"] * 4))


def until_again(rank, starts, path):
    """Shell: waits until that rank has been started anew so many times: whoever ended before might not be replaced."""
    return f"[ $RANK = {rank} ] && touch {path}.again.$LOCKSTEP_RESTART_COUNT; until [ -e {path}.again.{starts} ]; do sleep 0.02; done"


def copies_and_times():
    for more in ([], ["-H", HOSTS, "--rsh", SHELL]):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.join(folder, "out")
            script = '[ $RANK = 2 ] && [ $LOCKSTEP_RESTART_COUNT = 0 ] && echo first && kill -9 $$; echo "out $RANK"; echo err >&2; ' + until_again(2, 1, folder)
            done = cli.lockstep("run", "-np", "3", *more, "--restart", "1", "--output-filename", folder,
                                "--prefix-output-with-timestamp", "--", "sh", "-c", script)
            cli.equal(done.returncode, 0, done.stderr)
            assert re.search(rb"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[1\] out 1$", done.stdout, re.M), done.stdout
            read = lambda name: open(os.path.join(folder, name), encoding="ascii").read()
            cli.equal(sorted(os.listdir(folder)), ["rank.0", "rank.1", "rank.2"])
            cli.equal([read(f"rank.{rank}/stdout") for rank in range(3)], ["out 0\n", "out 1\n", "first\nout 2\n"])
            cli.equal(read("rank.1/stderr"), "err\n")


def who_is_killed_is_started_anew_on_its_host():
    with tempfile.TemporaryDirectory() as folder:
        script = ('[ $RANK = 3 ] && [ $LOCKSTEP_RESTART_COUNT -lt 2 ] && kill -9 $$; echo "$RANK $LOCKSTEP_RESTART_COUNT $HOST"; '
                  + until_again(3, 2, os.path.join(folder, "rank")))
        done = run(4, script, "--restart", "2", "--no-prefix")
    cli.equal(lines(done), ["0 0 127.0.0.2", "1 0 127.0.0.2", "2 0 127.0.0.3", "3 2 127.0.0.3"])
    cli.equal(done.stderr.count(b"started anew"), 2)


def read_pids(path, count):
    cli.wait_until(lambda: open(path, encoding="ascii").read().count("\n") == count, f"{count} processes in {path}")
    return [int(line.split()[0]) for line in open(path, encoding="ascii")]


def parent(pid):
    return int(open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[1])


# A worker with a child in its group and one in a session of its own.
FAMILY = "echo $$ $RANK >> {0}; sleep 300 & echo $! >> {0}; setsid sh -c 'echo $$ >> {0}; exec sleep 300' & "


def nobody_is_left():
    """After a failure, after the launcher's SIGKILL, and after a signal to it."""
    for how in ("failure", "kill", "term"):
        with tempfile.NamedTemporaryFile() as file:
            end = "[ $RANK = 3 ] && while :; do sleep 0.05; [ $(wc -l < {0}) = 12 ] && exit 5; done; wait" if how == "failure" else "wait"
            launcher = cli.start(*arguments(4, (FAMILY + end).format(file.name), "--grace", "0.1"), start_new_session=True)
            pids = read_pids(file.name, 12)
            if how != "failure":
                launcher.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
            begin = time.monotonic()
            status, _, err = cli.finish(launcher)
            cli.equal(status, {"failure": 5, "kill": -9, "term": 143}[how], err)
            cli.wait_until(lambda: not any(map(cli.alive, pids)), "the workers and their children to end", 4)
            assert how == "failure" or time.monotonic() - begin < 3 * cli.PACE, how


def wait_for_another_try(log, host):
    """Until the launcher has asked for the host once more than for its first agent."""
    cli.wait_until(lambda: sum(line.startswith(host + " ") for line in open(log, encoding="ascii")) > 1, f"a second try of {host}")


def a_lost_host():
    """Its agent is killed: its workers are lost with it, and the others go on where that is wanted."""
    for options, status in (["--elastic", "2"], 0), (["--grace", "0.1"], 137):
        with tempfile.NamedTemporaryFile() as file:
            script = f'echo $$ $RANK >> {file.name}; [ $RANK -gt 1 ] && exec sleep 300; while [ ! -s {file.name}.go ]; do sleep 0.05; done; echo on'
            launcher = cli.start(*arguments(4, script, *options))
            read_pids(file.name, 4)
            pids = {int(line.split()[1]): int(line.split()[0]) for line in open(file.name, encoding="ascii")}
            os.kill(parent(pids[2]), signal.SIGKILL)
            cli.wait_until(lambda: not any(map(cli.alive, [pids[2], pids[3]])), "the host's workers to end")
            with open(file.name + ".go", "w", encoding="ascii") as go:
                go.write("go")
            done, out, err = cli.finish(launcher)
            os.remove(file.name + ".go")
            cli.equal(done, status, err)
            cli.contains(err, b"lockstep run: host 127.0.0.3 is lost")
            cli.contains(err, b"on 127.0.0.3) was lost with its host")
            if not status:
                cli.equal(sorted(out.splitlines()), [b"[0] on", b"[1] on"])


def a_lost_host_comes_back():
    """Its workers are started anew on it when it can be reached again, at their old addresses."""
    with tempfile.TemporaryDirectory() as folder:
        pids, away, back, log = (os.path.join(folder, name) for name in ("pids", "away", "back", "log"))
        open(pids, "w", encoding="ascii").close()
        script = (f'[ $LOCKSTEP_RESTART_COUNT = 0 ] && echo $$ $RANK >> {pids}; [ $RANK -gt 1 ] && [ $LOCKSTEP_RESTART_COUNT = 0 ] && exec sleep 300; '
                  f'[ $RANK = 0 ] && cat; echo "$RANK $LOCKSTEP_RESTART_COUNT $TF_CONFIG" >> {back}; while [ $(wc -l < {back}) -lt 4 ]; do sleep 0.05; done')
        launcher = cli.start(*arguments(4, script, "--restart", "2", hosts="127.0.0.2:2,127.0.0.4:2"),
                             env=cli.environment(HOSTS_AWAY=away, HOSTS_LOG=log))
        read_pids(pids, 4)
        started = {int(line.split()[1]): int(line.split()[0]) for line in open(pids, encoding="ascii")}
        open(away, "w", encoding="ascii").close()
        os.kill(parent(started[2]), signal.SIGKILL)
        cli.wait_until(lambda: not any(map(cli.alive, [started[2], started[3]])), "the host's workers to end")
        wait_for_another_try(log, "127.0.0.4")
        os.remove(away)
        status, _, err = cli.finish(launcher)
        cli.equal(status, 0, err)
        for part in (b"host 127.0.0.4 is lost", b"was lost with its host; started anew when its host is back (restart 2 of 2)",
                     b"host 127.0.0.4: it is back"):
            cli.contains(err, part)
        seen = sorted(line.split(" ", 2) for line in open(back, encoding="ascii").read().splitlines())
        cli.equal([each[:2] for each in seen], [["0", "0"], ["1", "0"], ["2", "1"], ["3", "1"]])
        cli.equal(len({json.dumps(json.loads(each[2])["cluster"]) for each in seen}), 1)


def a_lost_hosts_ranks_start_on_spare_slots():
    """Without a wait for the host; a file says to all where they are, and TF_CONFIG stays."""
    with tempfile.TemporaryDirectory() as folder:
        pids, anew, end = (os.path.join(folder, name) for name in ("pids", "anew", "end"))
        for name in (pids, anew):
            open(name, "w", encoding="ascii").close()
        script = (f'[ $LOCKSTEP_RESTART_COUNT = 0 ] && echo $$ $RANK >> {pids} || echo "$RANK $HOST $LOCAL_RANK $(tr " \\n" =, < $LOCKSTEP_ADDRESSES) $TF_CONFIG" >> {anew}; '
                  f'while [ ! -e {end} ]; do sleep 0.05; done; echo "$TF_CONFIG" >> {end}.$RANK')
        launcher = cli.start(*arguments(4, script, "--restart", "3", hosts="127.0.0.2:2,127.0.0.4:2,127.0.0.3:3"), env=cli.environment(HOSTS_AWAY=end + ".no"))
        read_pids(pids, 4)
        started = {int(line.split()[1]): int(line.split()[0]) for line in open(pids, encoding="ascii")}
        os.kill(parent(started[2]), signal.SIGKILL)
        cli.wait_until(lambda: open(anew, encoding="ascii").read().count("\n") == 2, "the ranks that were moved")
        open(end, "w", encoding="ascii").close()
        status, _, err = cli.finish(launcher)
        cli.equal(status, 0, err)
        seen = sorted(line.split(" ", 4) for line in open(anew, encoding="ascii").read().splitlines())
        cli.equal([each[:2] for each in seen], [["2", "127.0.0.3"], ["3", "127.0.0.3"]])
        cli.equal(sorted(each[2] for each in seen), ["0", "1"])
        config = json.loads(seen[0][4])["cluster"]["worker"]
        cli.equal([address.partition(":")[0] for address in config], ["127.0.0.2"] * 2 + ["127.0.0.4"] * 2)
        places = max((each[3] for each in seen), key=lambda text: text.count("127.0.0.3")).split(",")
        cli.equal([place.partition(":")[0] for place in places], ["0=127.0.0.2", "1=127.0.0.2", "2=127.0.0.3", "3=127.0.0.3", ""])
        cli.equal(err.count(b"was lost with its host; started anew on 127.0.0.3 (restart"), 2, err)


def a_lost_host_stays_away():
    with tempfile.TemporaryDirectory() as folder:
        pids, away, log = (os.path.join(folder, name) for name in ("pids", "away", "log"))
        for how, status in (("limit", 137), ("signal", 143)):
            script = f'echo $$ $RANK >> {pids}{how}; exec sleep 300'
            options = ["--restart", "9", "--grace", "0", "--start-timeout", "1" if how == "limit" else "100"]
            open(pids + how, "w", encoding="ascii").close()
            launcher = cli.start(*arguments(2, script, *options, hosts="127.0.0.2,127.0.0.4"),
                                 env=cli.environment(HOSTS_AWAY=away, HOSTS_LOG=log + how))
            read_pids(pids + how, 2)
            started = {int(line.split()[1]): int(line.split()[0]) for line in open(pids + how, encoding="ascii")}
            open(away, "w", encoding="ascii").close()
            os.kill(parent(started[1]), signal.SIGKILL)
            if how == "signal":
                wait_for_another_try(log + how, "127.0.0.4")
                launcher.send_signal(signal.SIGTERM)
            done, _, err = cli.finish(launcher)
            assert done in (status, 137), (done, err)
            if how == "limit":
                cli.equal(err.count(b"host 127.0.0.4 is lost"), 2)
                cli.contains(err, b"host 127.0.0.4 is lost: ssh: no route to host")
            os.remove(away)


def freeze_an_agent():
    with tempfile.NamedTemporaryFile() as file:
        launcher = cli.start(*arguments(3, f"echo $$ $RANK >> {file.name}; exec sleep 300", "--stop-grace", "0"))
        read_pids(file.name, 3)
        pids = {int(line.split()[1]): int(line.split()[0]) for line in open(file.name, encoding="ascii")}
        os.kill(parent(pids[2]), signal.SIGSTOP)
        begin = time.monotonic()
        launcher.send_signal(signal.SIGTERM)
        status, _, err = cli.finish(launcher)
        assert 4 <= time.monotonic() - begin < 9 * cli.PACE
        assert status in (137, 143), status
        cli.contains(err, b"host 127.0.0.3 is lost")
        cli.wait_until(lambda: not any(map(cli.alive, pids.values())), "the workers to end")


def linger():
    begin = time.monotonic()
    done = run(1, "echo on", hosts="lingering")
    cli.equal(lines(done), ["[0] on"])
    assert 2 <= time.monotonic() - begin < 5 * cli.PACE


# These wait for long, and do so beside the other tests.
POOL = concurrent.futures.ThreadPoolExecutor()
FROZEN, LINGERING = POOL.submit(freeze_an_agent), POOL.submit(linger)


def a_frozen_agent_is_given_up():
    FROZEN.result()


def a_shell_that_does_not_end():
    LINGERING.result()


def training_gives_the_same_bits():
    train = ["--no-prefix", "--", "lockstep", "train", "--model", "mlp", "--dataset", "digits", "--epochs", "1", "--steps-per-epoch", "50", "--json"]
    digests = []
    for more in ([], ["-H", "127.0.0.2,127.0.0.3", "--rsh", SHELL]):
        done = cli.lockstep("run", "-np", "2", *more, *train)
        cli.equal(done.returncode, 0, done.stderr)
        digests.append(re.findall(rb'"weights_sha256": "[^"]*"', done.stdout))
    cli.equal(len(digests[0]), 1)
    cli.equal(digests[0], digests[1])


# What a hostfile may hold: the text, and the hosts with their slots.
FORMS = [
    ("a slots=2\nb slots=3\n", "a 2 b 3"),
    ("a:2\nb:3", "a 2 b 3"),
    ("# all\n\n  a slots=2 # here\n\tb\tslots=1\tmax_slots=4\r\n", "a 2 b 1"),
    ("a\na\nb\na", "a 3 b 1"),
    ("me@a slots=2\na\n", "me@a 2 a 1"),
    ("[fe80::1%eth0]:2\n[::1] slots=3\nroot@[fd00::2]\n", "fe80::1%eth0 2 ::1 3 root@fd00::2 1"),
    ("n[01-03,7]\n", "n01 1 n02 1 n03 1 n7 1"),
    ("n[1-2]:4,login\n", "n1 4 n2 4 login 1"),
    ("n[1-2] slots=2\n", "n1 2 n2 2"),
    ("10.0.0.1 slots=1024", "10.0.0.1 1024"),
    ("x-1.y_z.example.org:7", "x-1.y_z.example.org 7"),
]
# What it may not hold: the text, the line, and a part of what is said.
BROKEN = [
    ("", 0, "no host stands in it"), ("# none\n\n", 0, "no host stands in it"),
    *((f"a slots={value}\n", 1, "slots needs a number of slots from 1 to 1024") for value in
      ("0", "-1", "x", "1x", "1.5", "1025", "99999999999999999999", "", "+2", "0x2", "1,b")),
    *((f"a:{value}\n", 1, "a needs a number of slots from 1 to 1024") for value in ("0", "-1", "x", "2x", "1025", "+2", "1.5")),
    *((f"ok\na {word}\n", 2, part) for word, part in (
        ("slot=2", "'slot=2': only slots=N and max_slots=N are known"), ("cpus=2", "'cpus=2': only slots=N"), ("2", "'2' behind the host"),
        ("b", "'b' behind the host"), ("slots", "'slots' behind the host"), ("slots =2", "'slots' behind the host"),
        ("=2", "only slots=N"), ("slots=2 slots=2", "'slots' stands there twice"), ("slots=3 max_slots=2", "slots=3 is more than max_slots=2"),
        ("max_slots=0", "max_slots needs a number"), ("max_slots=2 max-slots=3", "stands there twice"), ("slots=2,slots=3", "slots needs a number"))),
    *((f"{name}\n", 1, part) for name, part in (
        ("-oProxyCommand=x", "'-' is in it"), ("-a", "'-' is in it"), ("a;b", "';' is in it"), ("a$(b)", "'$' is in it"), ("a`b`", "'`' is in it"),
        ("a/b", "'/' is in it"), ("a'b", "is in it"), ("a\\b", "is in it"), ("a!b", "'!' is in it"), ("ä", "has byte 0xc3"), ("a=b", "'=' is in it"),
        ("a,,b", "a host's name is missing"), (",a", "a host's name is missing"), ("a,", "a host's name is missing"), (":2", "a host's name is missing"),
        ("me@", "a host's name is missing"), ("@a", "before '@' is no name of a user"), ("-l@a", "before '@' is no name of a user"),
        ("m e@a", "'e@a' behind the host"), ("m;e@a", "before '@' is no name of a user"), ("me@-a", "'-' is in it"), ("me@you@a", "'@' is in it"),
        ("fe80::1", "an IPv6 address stands in brackets, [fe80::1]:SLOTS"), ("::1:2", "stands in brackets"), ("[fe80::1", "has no ']'"),
        ("[]", "no IPv6 address"), ("[a]", "no IPv6 address"), ("[fe80::g]", "no IPv6 address"), ("[::1]2", "only :SLOTS may stand there"),
        ("[::1%;]", "no IPv6 address"), ("n[1-3", "a bracket is not closed"), ("n[3-1]", "counts down"), ("n[]", "a number is missing"),
        ("n[a]", "a number is missing"), ("n[1-2]:0", "needs a number"), ("n[1-99999]", "too long"), ("n]", "']' is in it"),
        ("n[1-2000]", "more than 1024 hosts"), ("a" * 254, "longer than a name may be"), ("a\0b", "a zero byte"))),
    ("a:2 slots=2\n", 1, "slots twice"), ("a slots=1000\na slots=1000\n", 2, "more than 1024 slots in all"),
]


def hostfiles():
    path = os.path.join(FOLDER, "hosts.txt")
    for text, want in FORMS:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        done = cli.lockstep("run", "--hostfile", path, "--rsh", SHELL, "--check-hosts")
        cli.equal(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.decode().splitlines()[1:]]
        cli.equal(" ".join(f"{row[0]} {row[3]}" for row in rows), want, text)


def broken_hostfiles():
    path = os.path.join(FOLDER, "broken.txt")
    assert len(BROKEN) >= 60, len(BROKEN)
    for text, line, part in BROKEN:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        done = cli.lockstep("run", "-np", "1", "--hostfile", path, "--rsh", SHELL, "true")
        said = done.stderr.decode(errors="replace")
        cli.equal((done.returncode, done.stdout, said.count("\n")), (2, b"", 1), (text, said))
        begin = f"lockstep run: {path}{f':{line}' if line else ''}"
        assert said.startswith(begin) and part in said, (text, said)


def command_lines():
    for options, part in (
            (["-np", "1", "-H", "a:2,,b"], "-H a:2,,b: a host's name is missing"), (["-np", "1", "-H", ""], "a host's name is missing"),
            (["-np", "1", "-H", "a slots=2"], "' ' is in it"), (["-np", "3", "-H", "a,b"], "3 processes need as many slots, and the 2 hosts have 2"),
            (["-np", "2", "--ps", "1", "-H", "a,b"], "3 processes need as many slots"), (["-np", "1", "--hostfile", "/no/file"], "--hostfile='/no/file' cannot be read: No such file"),
            (["-np", "1", "--hostfile", "/tmp"], "/tmp"), (["-np", "1", "--ssh-port", "22"], "option '--ssh-port' needs '-H LIST'"),
            (["-np", "1", "--verbose"], "option '--verbose' needs"), (["-np", "1", "-H", "a", "--ssh-port", "0"], "from 1 to 65535"),
            (["-np", "1", "-H", "a", "--rsh", " "], "option '--rsh' needs a command"), (["-np", "1", "-x", "1A"], "option '-x' needs a variable's name"),
            (["-np", "1", "-x", "A-B=2"], "not 'A-B=2'"), (["-np", "1", "-H", "a", "--start-timeout", "0"], "from 1 to 86400")):
        done = cli.lockstep("run", *options, "true")
        cli.equal((done.returncode, done.stdout, done.stderr.count(b"\n")), (2, b"", 1), (options, done.stderr))
        cli.contains(done.stderr.decode(), part)


def an_agent_alone():
    """Ends with its input, and with what is no launcher."""
    done = cli.lockstep("agent")
    cli.equal((done.returncode, done.stdout, done.stderr), (0, b"lockstep-agent 1\n", b""))
    done = cli.lockstep("agent", stdin=None, input=b"GET / HTTP/1.1\r\n\r\n")
    cli.contains(done.stdout, b"no frame of lockstep run")
    cli.equal(cli.lockstep("agent", "now").returncode, 2)


try:
    cli.main([ranks_fill_the_hosts, remote_shells_go_through_srun_and_kubectl, the_machine_has_a_name_for_the_others, the_environment_goes_through_the_agents_input, workers_start_in_the_launchers_folder, statuses,
              hosts_that_cannot_be_had_are_named, the_interface_is_the_address, check_hosts, verbose_tells_the_way, input_reaches_rank_0,
              output_is_whole, copies_and_times, who_is_killed_is_started_anew_on_its_host, nobody_is_left, a_lost_host, a_lost_host_comes_back, a_lost_hosts_ranks_start_on_spare_slots, a_lost_host_stays_away, training_gives_the_same_bits,
              hostfiles, broken_hostfiles, command_lines, an_agent_alone, a_frozen_agent_is_given_up, a_shell_that_does_not_end])
finally:
    shutil.rmtree(FOLDER)
