"""Ranks of one group in several hosts on this machine: a host is a namespace of processes, so that no rank can map the memory of
one in another. unshare makes it; that wants root, or the right to make user namespaces."""
import json
import os
import subprocess
import sys
import tempfile

from ranks import HERE, LIMIT, environment, free_port

_NAMESPACE = ["unshare", "--map-root-user", "--pid", "--mount-proc", "--fork", "--kill-child"]


def works():
    try:
        return subprocess.run([*_NAMESPACE, "true"], capture_output=True, timeout=LIMIT).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def run(layout, program, *arguments, timeout=3 * LIMIT, **extra):
    """Starts layout[i] ranks in host i, and returns what all have said. A rank that fails is an AssertionError."""
    workers = [f"127.0.0.1:{port}" for port in _ports(sum(layout))]
    script = 'for rank in $0; do TF_CONFIG=${CLUSTER/RANK/$rank} "$@" & pids="$pids $!"; done; for pid in $pids; do wait $pid || exit; done'
    cluster = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": "RANK"}}).replace('"RANK"', "RANK")
    outside = {name: value for name, value in environment(CLUSTER=cluster, OMP_NUM_THREADS="1", **extra).items() if name != "TF_CONFIG"}
    command = [sys.executable, os.path.join(HERE, program), *arguments]
    begin, started = 0, []
    with tempfile.TemporaryFile("w+") as said:
        for count in layout:
            ranks = " ".join(map(str, range(begin, begin + count)))
            started.append(subprocess.Popen([*_NAMESPACE, "bash", "-c", script, ranks, *command], stdout=said, stderr=said, env=outside))
            begin += count
        try:
            statuses = [process.wait(timeout) for process in started]
        finally:
            for process in started:
                process.kill()
        said.seek(0)
        out = said.read()
    if any(statuses):
        raise AssertionError(f"{program} in hosts of {layout} ended with {statuses}:\n{out}")
    return out


def _ports(count):
    found = set()
    while len(found) < count:
        found.add(free_port())
    return sorted(found)
