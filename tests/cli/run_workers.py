"""lockstep run: what each worker gets, exit statuses, signals, and that nothing is left behind."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import cli

# Shell: the worker's own index as $index.
INDEX = 'index=${TF_CONFIG##*\\"index\\":}; index=${index%%[!0-9]*}; '


# Shell: each start of a worker writes its pid. gone INDEX [STARTS] waits until the launcher has seen that many starts end.
GONE = ('echo $$ >> %(lives)s/$index; gone() { '
        'until [ "$(cat %(lives)s/$1 2>&1 | wc -l)" -ge ${2:-1} ] && [ -s %(lives)s/$1 ]; do sleep 0.02; done; '
        'gone=$(tail -n 1 %(lives)s/$1); while [ -e /proc/$gone ]; do sleep 0.02; done; }; ')


def shell(count, script, *options, **kwargs):
    with tempfile.TemporaryDirectory() as lives:
        script = INDEX + GONE % {"lives": lives} + script
        return cli.lockstep("run", "-np", str(count), *options, "--", "sh", "-c", script, **kwargs)


def configs(out):
    """{rank: TF_CONFIG} of workers that printed theirs."""
    return {int(rank): json.loads(text) for rank, text in re.findall(rb"^\[(\d+)\] (\{.*\})$", out, re.M)}


def ports(config):
    return [address.rpartition(":")[2] for address in config["cluster"]["worker"]]


def each_rank_has_its_config():
    done = shell(16, 'echo "$TF_CONFIG"', env=cli.environment(TF_CONFIG="an older one"))
    cli.equal((done.returncode, done.stderr), (0, b""))
    seen = configs(done.stdout)
    cli.equal(sorted(seen), list(range(16)))
    for rank, config in seen.items():
        cli.equal(config["task"], {"type": "worker", "index": rank})
        cli.equal(config["cluster"], seen[0]["cluster"])
    addresses = seen[0]["cluster"]["worker"]
    cli.equal(len(set(addresses)), 16)
    assert all(re.fullmatch(r"127\.0\.0\.1:\d{4,5}", address) for address in addresses), addresses


def ports_are_free_and_not_the_kernels():
    low, high = map(int, open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii").read().split())
    done = shell(4, 'echo "$TF_CONFIG"')
    for port in map(int, ports(configs(done.stdout)[0])):
        assert not low <= port <= high, port
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def workers_can_bind_their_ports_at_once():
    program = ("import json, os, socket\n"
               "config = json.loads(os.environ['TF_CONFIG'])\n"
               "host, port = config['cluster']['worker'][config['task']['index']].split(':')\n"
               "socket.socket().bind((host, int(port)))\n")
    launchers = [cli.start("run", "-np", "4", "--", sys.executable, "-S", "-c", program) for _ in range(8)]
    for launcher in launchers:
        status, _, err = cli.finish(launcher)
        cli.equal((status, err), (0, b""))


def two_launchers_use_different_ports():
    script = INDEX + 'echo "$TF_CONFIG"; sleep 1'
    launchers = [cli.start("run", "-np", "8", "--", "sh", "-c", script) for _ in range(6)]
    used = []
    for launcher in launchers:
        status, out, _ = cli.finish(launcher)
        cli.equal(status, 0)
        used += ports(configs(out)[0])
    cli.equal(len(set(used)), 48)


def environment_of_a_worker():
    script = 'echo "$LOCKSTEP_DEVICES,$OMP_NUM_THREADS"'
    cli.equal(shell(1, script).stdout, b"[0] ,1\n")
    cli.equal(shell(1, script, "--devices", "3").stdout, b"[0] 3,1\n")
    env = cli.environment(LOCKSTEP_DEVICES="2", OMP_NUM_THREADS="4")
    cli.equal(shell(1, script, env=env).stdout, b"[0] 2,4\n")
    cli.equal(shell(1, script, "--devices", "cpu:0,cpu:1", env=env).stdout, b"[0] cpu:0,cpu:1,4\n")


def variables_of_torchrun():
    script = 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $LOCKSTEP_RESTART_COUNT $LOCKSTEP_COLUMNS"'
    done = shell(3, script, env=cli.environment(RANK="7", WORLD_SIZE="9", LOCKSTEP_RESTART_COUNT="5"))
    cli.equal(sorted(done.stdout.splitlines()), [b"[%d] %d 3 %d 3 0 0" % (rank, rank, rank) for rank in range(3)])
    done = shell(2, 'echo "$RANK $LOCKSTEP_RESTART_COUNT"; [ $RANK = 1 ] || sleep 1; [ $LOCKSTEP_RESTART_COUNT = $((2 * RANK)) ] || kill -9 $$',
                 "--restart", "2")
    cli.equal(sorted(done.stdout.splitlines()), [b"[0] 0 0", b"[1] 1 0", b"[1] 1 1", b"[1] 1 2"])
    ids = {shell(2, 'echo "$LOCKSTEP_RUN_ID"', "--no-prefix").stdout for _ in range(3)}
    cli.equal(len(ids), 3)
    assert all(len(set(text.split())) == 1 and len(text.split()) == 2 for text in ids), ids


def workers_start_with_the_launchers_own_signal_state():
    done = cli.lockstep("run", "-np", "1", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", restore_signals=True)
    here = subprocess.run(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"], stdout=subprocess.PIPE, check=True)
    cli.equal(done.stdout.replace(b"[0] ", b""), here.stdout)


def open_descriptors_are_the_three_usual():
    done = cli.lockstep("run", "-np", "2", "--no-prefix", "ls", "/proc/self/fd")
    cli.equal(done.stdout.split().count(b"3"), 2, "3 is the folder itself")
    cli.equal(sorted(set(done.stdout.split())), [b"0", b"1", b"2", b"3"])


def rank_0_reads_the_standard_input():
    done = shell(2, "cat; echo end", stdin=None, input=b"words\n")
    cli.equal(sorted(done.stdout.splitlines()), [b"[0] end", b"[0] words", b"[1] end"])


def the_word_lockstep_is_this_program():
    done = cli.lockstep("run", "-np", "2", "--", "lockstep", "check", "--json", env=cli.environment(PATH="/nowhere"))
    cli.equal(done.returncode, 0, done.stderr)
    seen = configs(done.stdout)
    cli.equal([(seen[rank]["id_in_cluster"], seen[rank]["is_chief"]) for rank in (0, 1)], [(0, True), (1, False)])


def exit_status_of_the_first_failing_worker():
    done = shell(3, "[ $index = 1 ] && exit 3; gone 1; exit 138")
    cli.equal(done.returncode, 3)
    assert re.search(rb"worker:1 \(rank 1, pid \d+\) ended with exit status 3", done.stderr), done.stderr
    assert not re.search(rb"worker:[02] \(rank", done.stderr), done.stderr


def exit_status_of_a_signal():
    done = shell(2, "[ $index = 1 ] && kill -9 $$; gone 1; exit 138")
    cli.equal(done.returncode, 137)
    assert re.search(rb"worker:1 \(rank 1, pid \d+\) was killed by signal 9 \(SIGKILL\)", done.stderr), done.stderr


def a_lost_peer_is_named_before_who_noticed_it():
    done = shell(2, "[ $index = 0 ] && exit 138; gone 0; exit 3")
    cli.equal(done.returncode, 3)
    cli.contains(done.stderr, b"worker:1 (rank 1")
    done = shell(2, "[ $index = 0 ] && exit 138; exit 0")
    cli.equal(done.returncode, 138)
    cli.contains(done.stderr, b"worker:0 (rank 0")


def who_is_killed_or_lost_a_peer_is_started_anew():
    """In its place: each start leaves a line with its TF_CONFIG in a file of its rank."""
    with tempfile.TemporaryDirectory() as folder:
        script = (f'echo "$TF_CONFIG" >> {folder}/$index; starts=$(wc -l < {folder}/$index); printf "start $starts"; '
                  '[ $index = 1 ] && [ $starts = 1 ] && kill -9 $$; [ $index = 2 ] && [ $starts -le 2 ] && exit 138; '
                  f'while [ $(wc -l < {folder}/1) -lt 2 ] || [ $(wc -l < {folder}/2) -lt 3 ]; do sleep 0.05; done')
        for rank in range(3):
            open(f"{folder}/{rank}", "w", encoding="ascii").close()
        done = shell(3, script, "--restart", "3")
        cli.equal(done.returncode, 0, done.stderr)
        written = [open(f"{folder}/{rank}", encoding="ascii").read().splitlines() for rank in range(3)]
        cli.equal([(len(lines), len(set(lines))) for lines in written], [(1, 1), (2, 1), (3, 1)])
        cli.equal(sorted(done.stdout.splitlines()), sorted(b"[%d] start %d" % (rank, start) for rank in range(3)
                                                           for start in range(1, rank + 2)))
        said = done.stderr.decode().splitlines()
        cli.equal(len(said), 3)
        assert all(re.search(rf"started anew as pid \d+ \(restart {at} of 3\)$", line)
                   for at, line in enumerate(said, 1)), said
        assert any(re.search(r"worker:1 \(rank 1, pid \d+\) was killed by signal 9 \(SIGKILL\);", line) for line in said), said


def restarts_are_limited():
    done = shell(2, "[ $index = 1 ] && kill -9 $$; exit 138", "--restart", "4")
    assert done.returncode in (137, 138), done
    cli.equal(done.stderr.count(b"started anew"), 4)


def enough_are_left():
    """--elastic: who is lost does not end the run while enough are left; who fails by itself does."""
    script = '[ $index = 1 ] && kill -9 $$; gone 1; echo "$LOCKSTEP_ELASTIC $LOCKSTEP_REJOIN_TIMEOUT"'
    done = shell(3, script, "--elastic", "2")
    cli.equal((done.returncode, sorted(done.stdout.splitlines())), (0, [b"[0] 2:3 0", b"[2] 2:3 0"]), done.stderr)
    cli.contains(done.stderr, b"was killed by signal 9 (SIGKILL); 2 of 3 workers are left, 2 must be")
    done = shell(3, "[ $index = 0 ] || kill -9 $$; gone 1; gone 2", "--elastic", "2", "--grace", "0.1")
    cli.equal(done.returncode, 137, done.stderr)
    done = shell(3, "[ $index = 1 ] && exit 3; gone 1", "--elastic", "1")
    cli.equal(done.returncode, 3, done.stderr)
    done = shell(2, "[ $index = 1 ] && kill -9 $$; gone 1 3", "--elastic", "1", "--restart", "2")
    cli.equal((done.returncode, done.stderr.count(b"started anew"), done.stderr.count(b"are left")), (0, 2, 1), done.stderr)


def what_is_not_restarted():
    for script in ("[ $index = 1 ] && exit 3; sleep 100",  # a failure of its own
                   "[ $index = 1 ] && exit 0; gone 1; exit 138"):  # the other one has succeeded
        done = shell(2, script, "--restart", "4", "--grace", "0.1")
        assert done.returncode in (3, 138), done
        cli.equal(done.stderr.count(b"started anew"), 0, done.stderr)
    with tempfile.NamedTemporaryFile() as file:
        script = f"echo $$ >> {file.name}; exec sleep 100"
        launcher = cli.start("run", "-np", "2", "--restart", "4", "--", "sh", "-c", script)
        read_pids(file.name, 2)
        launcher.send_signal(signal.SIGTERM)
        status, _, err = cli.finish(launcher)
        cli.equal((status, err.count(b"started anew")), (143, 0))


def any_status_is_a_reason_to_restart():
    script = "[ $index = 1 ] && [ $LOCKSTEP_RESTART_COUNT -lt 3 ] && exit $((LOCKSTEP_RESTART_COUNT * 70 + 3)); [ $index = 1 ] || gone 1 3"
    done = shell(2, script, "--restart", "4", "--restart-on", "any")  # 3, 73, 143
    cli.equal((done.returncode, done.stderr.count(b"started anew")), (0, 3), done.stderr)
    done = shell(2, "[ $index = 1 ] && exit 3; gone 1 3", "--restart", "2", "--restart-on", "any", "--grace", "0.1")
    cli.equal((done.returncode, done.stderr.count(b"started anew")), (3, 2), done.stderr)
    done = shell(2, "exit 3", "--restart-on", "any")
    cli.equal(done.returncode, 2)
    cli.contains(done.stderr, b"'--restart-on' needs '--restart N'")


def who_all_stop_in_order_leave_no_word():
    """Nor are they started anew; 143 of one alone is a failure like any other."""
    done = shell(3, "[ $index = 1 ] || gone 1; exit 143", "--restart", "4")
    cli.equal((done.returncode, done.stderr), (143, b""))
    done = shell(3, "[ $index = 1 ] && exit 130; gone 1; exit 143")  # SIGINT to one of them
    cli.equal((done.returncode, done.stderr), (130, b""))
    done = shell(2, "[ $index = 1 ] && exit 143; gone 1; exit 3")
    cli.equal(done.returncode, 143)
    cli.contains(done.stderr, b"worker:1 (rank 1, pid ")
    cli.contains(done.stderr, b"ended with exit status 143")


def a_command_that_cannot_start():
    done = cli.lockstep("run", "-np", "3", "no-such-command")
    cli.equal(done.returncode, 127)
    cli.contains(done.stderr, b"'no-such-command'")
    cli.equal(done.stderr.count(b"\n"), 1)
    done = cli.lockstep("run", "-np", "3", "/etc/passwd")
    cli.equal(done.returncode, 126)
    cli.contains(done.stderr, b"'/etc/passwd'")


def the_others_get_a_grace_then_sigterm():
    begin = time.monotonic()
    done = shell(2, 'trap "echo ended; exit 0" TERM; [ $index = 1 ] && exit 4; while :; do sleep 0.1; done', "--grace", "0.5")
    cli.equal((done.returncode, done.stdout), (4, b"[0] ended\n"))
    assert 0.5 <= time.monotonic() - begin < 4 * cli.PACE, "SIGTERM comes after the grace"
    cli.contains(done.stderr, b"SIGTERM to worker:0")


def who_ignores_sigterm_is_killed():
    begin = time.monotonic()
    done = shell(2, 'trap "" TERM; [ $index = 1 ] && exit 4; while :; do sleep 0.1; done', "--grace", "0.2")
    cli.equal(done.returncode, 4)
    assert 5 <= time.monotonic() - begin < 12 * cli.PACE, "SIGKILL comes 5 s after SIGTERM"
    cli.contains(done.stderr, b"SIGKILL to worker:0")


def a_server_that_outlives_the_workers_is_ended():
    serve = """grep -q '"type": *"ps"' <<< "$TF_CONFIG" || exit 0; """
    for trap, name in (("", b"SIGTERM to ps:0"), ('trap "" TERM; ', b"SIGKILL to ps:0")):
        begin = time.monotonic()
        done = cli.lockstep("run", "-np", "1", "--ps", "1", "--grace", "0.2", "--", "bash", "-c", serve + trap + "while :; do sleep 0.1; done")
        cli.equal(done.returncode, 0, done.stderr)
        cli.contains(done.stderr, name)
        assert time.monotonic() - begin < 12 * cli.PACE


def who_ignores_a_signal_to_the_launcher_is_killed():
    for number in (signal.SIGINT, signal.SIGTERM):
        with tempfile.NamedTemporaryFile() as file:
            script = (f'trap "" INT TERM; [ $index = 1 ] && trap "exit 0" INT TERM; echo $$ >> {file.name}; '
                      'while :; do sleep 0.05; done')
            launcher = cli.start("run", "-np", "2", "--stop-grace", "0.6", "--", "sh", "-c", INDEX + script)
            pids = read_pids(file.name, 2)
            begin = time.monotonic()
            launcher.send_signal(number)
            status, _, err = cli.finish(launcher)
            cli.equal(status, 137, err)
            assert 0.6 <= time.monotonic() - begin < 5 * cli.PACE
            cli.contains(err, b"SIGKILL to worker:0")
            assert not any(map(cli.alive, pids))


def read_pids(path, count):
    """Waits until count process ids stand in the file."""
    cli.wait_until(lambda: open(path, encoding="ascii").read().count("\n") == count, f"{count} processes in {path}")
    return [int(line) for line in open(path, encoding="ascii")]


def signals_are_passed_on():
    for name, status in (("INT", 7), ("TERM", 7), ("HUP", 7), ("QUIT", 7), ("USR1", 7), ("USR2", 7)):
        with tempfile.NamedTemporaryFile() as file:
            script = f'trap "echo got {name}; exit 7" {name}; echo $$ >> {file.name}; while :; do sleep 0.05; done'
            launcher = cli.start("run", "-np", "2", "--", "sh", "-c", script)
            read_pids(file.name, 2)
            launcher.send_signal(getattr(signal, "SIG" + name))
            done, out, _ = cli.finish(launcher)
            cli.equal(done, status, name)
            cli.equal(sorted(line[4:] for line in out.splitlines()), [b"got " + name.encode()] * 2)


def a_signal_that_kills_the_workers_is_the_status():
    with tempfile.NamedTemporaryFile() as file:
        launcher = cli.start("run", "-np", "2", "--", "sh", "-c", f"echo $$ >> {file.name}; exec sleep 100")
        pids = read_pids(file.name, 2)
        launcher.send_signal(signal.SIGINT)
        cli.equal(cli.finish(launcher)[0], 130)
        assert not any(map(cli.alive, pids))


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def stopping_and_going_on():
    with tempfile.NamedTemporaryFile() as file:
        launcher = cli.start("run", "-np", "1", "--", "sh", "-c", f"echo $$ >> {file.name}; exec sleep 100")
        pid = read_pids(file.name, 1)[0]
        launcher.send_signal(signal.SIGTSTP)
        cli.wait_until(lambda: state_of(pid) == "T", "the worker to stop")
        launcher.send_signal(signal.SIGCONT)
        cli.wait_until(lambda: state_of(pid) == "S", "the worker to go on")
        launcher.send_signal(signal.SIGTERM)
        cli.equal(cli.finish(launcher)[0], 143)


# A write that says SIGSTOP takes a while.
SLOW = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
ssize_t write(int file, const void *data, size_t size) {
    ssize_t done = ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(file, data, size);
    if (memmem(data, size, "19", 3)) usleep(500000);
    return done;
}
"""


def going_on_while_the_workers_are_stopped():
    """SIGCONT comes when the worker is stopped, and the launcher not yet."""
    with tempfile.TemporaryDirectory() as folder:
        source, shared, pids = (os.path.join(folder, name) for name in ("slow.c", "slow.so", "pids"))
        with open(source, "w", encoding="ascii") as file:
            file.write(SLOW)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", shared, source, "-ldl"], check=True)
        open(pids, "w").close()
        launcher = cli.start("run", "-np", "1", "--", "sh", "-c", f"unset LD_PRELOAD; echo $$ >> {pids}; exec sleep 100",
                             env=cli.environment(LD_PRELOAD=shared, ASAN_OPTIONS="verify_asan_link_order=0"))
        pid = read_pids(pids, 1)[0]
        launcher.send_signal(signal.SIGTSTP)
        cli.wait_until(lambda: state_of(pid) == "T", "the worker to stop")
        launcher.send_signal(signal.SIGCONT)
        cli.wait_until(lambda: state_of(pid) == "S", "the worker to go on")
        launcher.send_signal(signal.SIGTERM)
        cli.equal(cli.finish(launcher)[0], 143)


# A worker with a child in its group and one in a session of its own.
FAMILY = "echo $$ >> {0}; sleep 300 & echo $! >> {0}; setsid sh -c 'echo $$ >> {0}; exec sleep 300' & "


def nobody_is_left_after_a_failure():
    with tempfile.NamedTemporaryFile() as file:
        script = (FAMILY.format(file.name) + "[ $index = 1 ] || wait; "
                  f"while [ $(wc -l < {file.name}) -lt 9 ]; do sleep 0.05; done; exit 5")
        done = shell(3, script, "--grace", "0.1")
        cli.equal(done.returncode, 5)
        pids = read_pids(file.name, 9)
        assert not any(map(cli.alive, pids)), pids


def nobody_is_left_after_success():
    with tempfile.NamedTemporaryFile() as file:
        script = FAMILY.format(file.name) + f"while [ $(wc -l < {file.name}) -lt 6 ]; do sleep 0.05; done; exit 0"
        begin = time.monotonic()
        cli.equal(shell(2, script).returncode, 0)
        assert time.monotonic() - begin < 10 * cli.PACE
        pids = read_pids(file.name, 6)
        assert not any(map(cli.alive, pids)), pids


def nobody_is_left_when_the_launcher_is_killed():
    with tempfile.NamedTemporaryFile() as file:
        script = FAMILY.format(file.name) + "wait"
        launcher = cli.start("run", "-np", "4", "--", "sh", "-c", script, start_new_session=True)
        pids = read_pids(file.name, 12)
        os.killpg(launcher.pid, signal.SIGKILL)
        cli.finish(launcher)
        cli.wait_until(lambda: not any(map(cli.alive, pids)), "the workers and their children to end")


def agent_of(pid):
    return int(open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[1])


def nobody_is_left_when_the_agent_is_killed():
    """One line says so, also where workers would be started anew."""
    for options in ([], ["--restart", "4"], ["--elastic", "1"]):
        with tempfile.NamedTemporaryFile() as file:
            launcher = cli.start("run", "-np", "3", *options, "--", "sh", "-c", FAMILY.format(file.name) + "wait")
            pids = read_pids(file.name, 9)
            os.kill(agent_of(pids[0]), signal.SIGKILL)
            status, out, err = cli.finish(launcher)
            cli.equal((status, out, err.count(b"\n")), (137, b"", 1), err)
            assert re.fullmatch(rb"lockstep run: lockstep agent \(pid \d+\) has ended before the workers, which end with it\n", err), err
            cli.wait_until(lambda: not any(map(cli.alive, pids)), "the workers and their children to end")


def the_agent_ends_with_the_launcher():
    with tempfile.NamedTemporaryFile() as file:
        launcher = cli.start("run", "-np", "2", "--", "sh", "-c", FAMILY.format(file.name) + "wait")
        pids = read_pids(file.name, 6)
        agent = agent_of(pids[0])
        launcher.kill()
        cli.finish(launcher)
        cli.wait_until(lambda: not any(map(cli.alive, [agent, *pids])), "all to end")


def signals_to_all_processes_leave_the_agent():
    """As a service manager sends them: the workers judge, and the launcher."""
    with tempfile.NamedTemporaryFile() as file:
        script = f'trap "echo got; exit 7" TERM; echo $$ >> {file.name}; while :; do sleep 0.05; done'
        launcher = cli.start("run", "-np", "1", "--", "sh", "-c", script)
        agent = agent_of(read_pids(file.name, 1)[0])
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGTERM):
            os.kill(agent, number)
        time.sleep(0.2)
        assert cli.alive(agent)
        launcher.terminate()
        status, out, err = cli.finish(launcher)
        cli.equal((status, out), (7, b"[0] got\n"), err)


def who_cannot_be_started_anew_has_ended_as_before():
    for options, status in ([], 137), (["--elastic", "1"], 0):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            with open(program, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n[ $RANK = 0 ] && touch {folder}/up && exec sleep 1\n"
                           f"while [ ! -e {folder}/up ]; do sleep 0.05; done\nrm {program} && kill -9 $$\n")
            os.chmod(program, 0o755)
            done = cli.lockstep("run", "-np", "2", "--restart", "9", *options, "--grace", "0.1", "--", program)
            cli.equal(done.returncode, status, done.stderr)
            cli.equal((done.stderr.count(b"cannot start"), done.stderr.count(b"started anew")), (1, 0), done.stderr)
            cli.contains(done.stderr, b"was killed by signal 9 (SIGKILL)")


def the_standard_input_is_rank_0s_alone():
    """Nobody takes bytes that it does not read; it may be a file that is sought in."""
    with tempfile.TemporaryFile() as file:
        file.write(b"one\ntwo\nthree\n")
        for script, left in (("exit 0", b"one\ntwo\nthree\n"), ("read line; exit 0", b"two\nthree\n")):
            file.seek(0)
            cli.equal(shell(2, script, stdin=file).returncode, 0)
            cli.equal(os.read(file.fileno(), 100), left)
    done = shell(2, "[ $RANK = 0 ] && [ $LOCKSTEP_RESTART_COUNT = 0 ] && read line && kill -9 $$; [ $RANK = 0 ] || gone 0; cat",
                 "--restart", "1", stdin=None, input=b"one\ntwo\n")
    cli.equal((done.returncode, done.stdout), (0, b"[0] two\n"), done.stderr)


def children_from_before_an_exec_are_left_alone():
    script = f"sleep 300 & echo $!; exec {cli.LOCKSTEP} run -np 1 true"
    with tempfile.TemporaryFile() as file:
        done = subprocess.run(["sh", "-c", script], stdout=file, env=cli.environment(), timeout=cli.LIMIT, check=False)
        file.seek(0)
        pid = int(file.readline())
    try:
        cli.equal(done.returncode, 0)
        assert cli.alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


cli.main([each_rank_has_its_config, ports_are_free_and_not_the_kernels, workers_can_bind_their_ports_at_once,
          two_launchers_use_different_ports, environment_of_a_worker, variables_of_torchrun, workers_start_with_the_launchers_own_signal_state, open_descriptors_are_the_three_usual,
          rank_0_reads_the_standard_input, the_word_lockstep_is_this_program, exit_status_of_the_first_failing_worker,
          exit_status_of_a_signal, a_lost_peer_is_named_before_who_noticed_it,
          who_is_killed_or_lost_a_peer_is_started_anew, restarts_are_limited, enough_are_left,
          what_is_not_restarted,
          any_status_is_a_reason_to_restart, who_all_stop_in_order_leave_no_word, a_command_that_cannot_start,
          the_others_get_a_grace_then_sigterm, who_ignores_sigterm_is_killed, a_server_that_outlives_the_workers_is_ended, who_ignores_a_signal_to_the_launcher_is_killed, signals_are_passed_on,
          a_signal_that_kills_the_workers_is_the_status, stopping_and_going_on, going_on_while_the_workers_are_stopped,
          nobody_is_left_after_a_failure,
          nobody_is_left_after_success, nobody_is_left_when_the_launcher_is_killed,
          nobody_is_left_when_the_agent_is_killed, the_agent_ends_with_the_launcher, signals_to_all_processes_leave_the_agent,
          who_cannot_be_started_anew_has_ended_as_before, the_standard_input_is_rank_0s_alone,
          children_from_before_an_exec_are_left_alone])
