"""LOCKSTEP_HTTP and LOCKSTEP_METRICS_FILE: what a worker tells those who watch it."""
import contextlib
import glob
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import sys
import tempfile
import time

import cli

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from cluster import free_ports  # noqa: E402

TRAIN = ("train", "--dataset", "digits", "--limit", "64", "--batch-size", "16", "--verbose", "-1", "--no-validation")
SAMPLE = re.compile(r'(lockstep_[a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)+)\})? (-?[0-9.e+-]+|NaN)$')
ALERTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "prometheus")


def adjacent_port():
    """A port that is free, as is the one after it; below the kernel's range for clients."""
    for _ in range(50):
        port = random.randrange(30000, 32700)
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue
    raise AssertionError("no two ports")


OPEN, TEXT = "application/openmetrics-text; version=1.0.0; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"
# as Prometheus 2, Prometheus 3 without OpenMetrics, and curl ask
ACCEPTS = {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1": OPEN,
           "text/plain;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1": TEXT, "*/*": TEXT, None: TEXT}


def ask(port, path="/metrics", method="GET", accept=None):
    """Status, type and text; None where nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=cli.LIMIT)
    try:
        connection.request(method, path, headers={"accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    except (ConnectionRefusedError, ConnectionResetError):
        return None
    finally:
        connection.close()


SUFFIXES = {"counter": ["_total"], "gauge": [""], "info": ["_info"], "histogram": ["_bucket", "_count", "_sum"]}
# the text format gives families their samples' names, and knows no info
TEXT_SUFFIXES = {"counter": [""], "gauge": [""], "histogram": SUFFIXES["histogram"]}


def read_metrics(text):
    """The samples by name and labels; checks what OpenMetrics 1.0 asks of a text, or Prometheus' text format 0.0.4."""
    lines, families, samples = text.split("\n"), {}, {}
    opened = lines[-2] == "# EOF"
    suffixes = SUFFIXES if opened else TEXT_SUFFIXES
    cli.equal(lines[-1], "")
    name = kind = None
    for line in lines[:-2] if opened else lines[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in families, line
            families[name] = kind
        elif line.startswith("# UNIT "):
            assert opened and name.endswith("_" + line.split(" ")[3]), line
        elif line.startswith("# HELP "):
            cli.equal(line.split(" ")[2], name)
        else:
            found = SAMPLE.match(line)
            assert found, line
            assert found[1] in [name + suffix for suffix in suffixes[kind]], line
            key = (found[1], found[2])
            assert key not in samples, line
            samples[key] = float(found[3])
    for name in (name for name, kind in families.items() if kind == "histogram"):
        buckets = [(labels, value) for (sample, labels), value in samples.items() if sample == name + "_bucket"]
        bounds = [float(re.match(r'le="(.*)"', labels)[1]) for labels, _ in buckets]
        cli.equal(bounds, [float(f"{digit}e{power}") for power in range(-5, 2) for digit in (1, 3)] + [float("inf")])
        counts = [value for _, value in buckets]
        assert counts == sorted(counts) and counts[-1] == samples[name + "_count", None], counts
    return {name: value for (name, labels), value in samples.items() if not labels}, families


def workers_serve_their_metrics():
    port = adjacent_port()
    with tempfile.TemporaryDirectory() as folder:
        run = cli.start("run", "-np", "2", "--", cli.LOCKSTEP, *TRAIN, "--epochs", "100000", "--checkpoint", folder,
                        "--checkpoint-steps", "20", env=cli.environment(LOCKSTEP_HTTP=f"127.0.0.1:{port}"))
        try:
            def steps(which):
                cli.equal(run.poll(), None, "the training has ended")
                answer = ask(port + which)
                return read_metrics(answer[2])[0]["lockstep_steps_total"] if answer else 0
            cli.wait_until(lambda: steps(0) > 60 and steps(1) > 60, "60 steps")
            for which in (0, 1):
                for accept, expected in ACCEPTS.items():
                    status, kind, text = ask(port + which, accept=accept)
                    cli.equal((status, kind, "# EOF" in text), (200, expected, expected == OPEN), accept)
                    read_metrics(text)
                cli.contains(text, f'lockstep_worker_info{{task="worker:{which}",version=')
                found, _ = read_metrics(text)
                cli.equal([found["lockstep_" + name] for name in ("workers", "restarts_total", "ready")], [2, 0, 1])
                assert found["lockstep_step_duration_seconds_count"] > 60, text
                assert found["lockstep_collective_duration_seconds_count"] <= found["lockstep_collectives_total"] + 1, text
                assert found["lockstep_collective_bytes_total"] > 60 * 4 * 1000, text
                assert 0 < found["lockstep_step_duration_seconds_sum"] < 60 and 0 < found["lockstep_loss"] < 10, text
                cli.equal(ask(port + which, "/readyz")[:1], (200,))
                cli.contains(ask(port + which, "/readyz")[2], f"rank {which} of 2, generation {found['lockstep_generation']:.0f}\n")
                cli.equal(ask(port + which, "/livez")[:1], (200,))
            cli.wait_until(lambda: "lockstep_checkpoint_age_seconds" in read_metrics(ask(port)[2])[0], "a checkpoint's age")
            cli.equal("lockstep_checkpoint_age_seconds" in read_metrics(ask(port + 1)[2])[0], False)
            cli.equal(ask(port, "/")[0], 404)
            cli.equal(ask(port, "/metrics", "POST")[0], 405)
            cli.equal(ask(port, "/metrics", "HEAD")[::2], (200, ""))
        finally:
            run.send_signal(signal.SIGTERM)
            cli.finish(run)


def who_waits_for_others_is_alive_and_not_ready():
    """And who is silent, slow or talks nonsense holds nobody up for long."""
    port, *tasks = free_ports(3)
    config = {"cluster": {"worker": [f"127.0.0.1:{task}" for task in tasks]}, "task": {"type": "worker", "index": 0}}
    worker = cli.start(*TRAIN, env=cli.environment(LOCKSTEP_HTTP=f"localhost:{port}", TF_CONFIG=json.dumps(config)))
    try:
        cli.wait_until(lambda: ask(port, "/livez"), "an answer")
        cli.wait_until(lambda: "waits for" in ask(port, "/readyz")[2], "the missing")
        said = re.fullmatch(rf"not ready: waits for 1 of 2 workers since \d+ s, \d+ s left: worker:1 \(127.0.0.1:{tasks[1]}\): "
                            "(connection refused|no answer yet)\n", ask(port, "/readyz")[2])
        assert said and ask(port, "/readyz")[0] == 503, ask(port, "/readyz")
        cli.contains(ask(port, "/livez")[2], "not ready: waits for 1 of 2 workers")
        cli.equal(ask(port, "/livez")[0], 200)
        cli.equal(read_metrics(ask(port)[2])[0]["lockstep_workers"], 0)
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as silent, socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(b"GET /livez HTTP/1.1\r\n\r")
            cli.equal(ask(port, "/livez")[0], 200)
            slow.sendall(b"\n")
            cli.contains(slow.recv(100), b"200 OK")
            cli.equal(silent.recv(10), b"")
        assert 1.5 < time.monotonic() - begin < 8 * cli.PACE, time.monotonic() - begin
        for nonsense in (b"\r\n\r\n", b"GET\r\n\r\n", b"x" * 10000, b"GET /metrics", b"\0" * 100 + b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as caller, contextlib.suppress(OSError):  # it is closed at once
                caller.sendall(nonsense)
                caller.shutdown(socket.SHUT_WR)
        cli.equal(ask(port, "/livez")[0], 200)
        cli.equal(worker.poll(), None)
    finally:
        worker.kill()
        cli.finish(worker)


def a_thousand_silent_connections_keep_nobody_from_an_answer():
    """The oldest of them give way: 1,000 take no more descriptors than a few."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    port, *tasks = free_ports(3)
    config = {"cluster": {"worker": [f"127.0.0.1:{task}" for task in tasks]}, "task": {"type": "worker", "index": 0}}
    worker = cli.start(*TRAIN, env=cli.environment(LOCKSTEP_HTTP=f"127.0.0.1:{port}", TF_CONFIG=json.dumps(config)))
    with contextlib.ExitStack() as stack:
        stack.callback(cli.finish, worker)
        stack.callback(worker.kill)
        cli.wait_until(lambda: ask(port, "/livez"), "an answer")
        descriptors = len(os.listdir(f"/proc/{worker.pid}/fd"))
        for _ in range(1000):
            silent = stack.enter_context(socket.socket())
            silent.setblocking(False)
            silent.connect_ex(("127.0.0.1", port))
        begin = time.monotonic()
        cli.equal([ask(port, "/livez")[0] for _ in range(3)], [200] * 3)
        cli.equal(ask(port)[0], 200)
        assert time.monotonic() - begin < 5 * cli.PACE, time.monotonic() - begin  # where one waits for another, this takes minutes
        assert len(os.listdir(f"/proc/{worker.pid}/fd")) < descriptors + 200
        cli.equal(worker.poll(), None)


def a_parameter_server_is_ready_with_its_workers():
    port, *tasks = free_ports(3)
    config = {"cluster": {"worker": [f"127.0.0.1:{tasks[0]}"], "ps": [f"127.0.0.1:{tasks[1]}"]}, "task": {"type": "ps", "index": 0}}
    first = {"LOCKSTEP_HTTP": f"localhost:{port - 1}"}  # the worker's would be the port before
    server = cli.start("serve", env=cli.environment(TF_CONFIG=json.dumps(config), **first))
    worker = None
    try:
        cli.wait_until(lambda: ask(port, "/readyz") and "worker:0" in ask(port, "/readyz")[2], "the missing")
        cli.equal(ask(port, "/readyz")[0], 503)
        config["task"]["type"] = "worker"
        worker = cli.start(*TRAIN, "--epochs", "100000", env=cli.environment(TF_CONFIG=json.dumps(config)))
        cli.wait_until(lambda: ask(port, "/readyz")[0] == 200, "the worker")
        assert re.fullmatch(r"serves 1 worker, generation \d+\n", ask(port, "/readyz")[2]), ask(port, "/readyz")
        worker.kill()
        cli.wait_until(lambda: ask(port, "/readyz")[0] == 503, "the loss")
        cli.contains(ask(port, "/readyz")[2], "worker:0")
    finally:
        for process in (worker, server):
            if process:
                process.kill()
                cli.finish(process)


def a_bad_address_is_one_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for address, status, words in (("9400", 2, "there is no port"), ("127.0.0.1:http", 2, "the port is no number"),
                                       ("127.0.0.1:65536", 2, "the port is no number"),
                                       ("host.example:9400", 2, "the host is no address of numbers, nor localhost"),
                                       (f"127.0.0.1:{port}", 0, f"port {port} cannot be had, and is not served: Address already in use"),
                                       (f"127.0.0.1:{port}", 1, f"port {port} cannot be had: Address already in use")):
            alone = {"cluster": {"worker": [f"127.0.0.1:{free_ports(1)[0]}"]}, "task": {"type": "worker", "index": 0}}
            more = {"TF_CONFIG": json.dumps(alone)} if status == 1 else {}
            done = cli.lockstep(*TRAIN, "--epochs", "1", env=cli.environment(LOCKSTEP_HTTP=address, **more))
            cli.equal(bool(done.returncode) if status == 1 else done.returncode, status, done.stderr)
            cli.contains(done.stderr.decode(), f"LOCKSTEP_HTTP '{address}': {words}")
            cli.equal(done.stderr.count(b"LOCKSTEP_HTTP"), 1, done.stderr)


def metrics_are_written_to_a_file():
    with tempfile.TemporaryDirectory() as folder:
        done = cli.lockstep("run", "-np", "2", "--", cli.LOCKSTEP, *TRAIN, "--epochs", "2",
                            env=cli.environment(LOCKSTEP_METRICS_FILE=folder + "/lockstep-%r.prom"))
        cli.equal(done.returncode, 0, done.stderr)
        cli.equal(sorted(os.listdir(folder)), ["lockstep-0.prom", "lockstep-1.prom"])
        for path in glob.glob(folder + "/*"):
            with open(path, encoding="utf-8") as file:
                samples, families = read_metrics(file.read())
                cli.equal((samples["lockstep_steps_total"], families["lockstep_steps_total"]), (8, "counter"))
        done = cli.lockstep("run", "-np", "2", "--", cli.LOCKSTEP, *TRAIN, "--epochs", "1",
                            env=cli.environment(LOCKSTEP_METRICS_FILE=folder + "/m.prom"))
        cli.equal(sorted(name for name in os.listdir(folder) if name[0] == "m"), ["m.rank0.prom", "m.rank1.prom"])
        done = cli.lockstep(*TRAIN, "--epochs", "1", env=cli.environment(LOCKSTEP_METRICS_FILE=folder + "/no/where.prom"))
        cli.equal(done.returncode, 0, done.stderr)
        cli.contains(done.stderr, b"LOCKSTEP_METRICS_FILE: ")


def what_alerts_and_the_dashboard_name_is_served():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/m.prom"
        done = cli.lockstep(*TRAIN, "--epochs", "1", "--checkpoint", folder + "/c",
                            env=cli.environment(LOCKSTEP_METRICS_FILE=path))
        cli.equal(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    served = set(re.findall(r"^(lockstep_\w+)", text, re.M)) | {"lockstep_checkpoint_age_seconds"}
    files = glob.glob(ALERTS + "/*")
    cli.equal(len(files), 2)
    for name in files:
        with open(name, encoding="utf-8") as file:
            named = set(re.findall(r"\blockstep_\w+", file.read()))
        assert named and named <= served, (name, named - served)


if __name__ == "__main__":
    cli.main([workers_serve_their_metrics, who_waits_for_others_is_alive_and_not_ready,
              a_thousand_silent_connections_keep_nobody_from_an_answer,
              a_parameter_server_is_ready_with_its_workers, a_bad_address_is_one_error,
              metrics_are_written_to_a_file, what_alerts_and_the_dashboard_name_is_served])
