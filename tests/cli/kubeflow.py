"""Kubeflow Trainer's status server, which is told by HTTPS how far a training is."""
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import cli

TRAIN = ("train", "--dataset", "digits", "--limit", "64", "--batch-size", "16", "--epochs", "3", "--verbose", "-1")


class Status(http.server.BaseHTTPRequestHandler):
    """Keeps what comes, and answers as the server's status says."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, self.headers["Authorization"], self.headers["Content-Type"], json.loads(body)))
        answer = b'{"trainerStatus": {}}'
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Server:
    """A status server with TLS for 127.0.0.1 and a token, and the variables that a TrainJob's container has: the defaults of
    ls_kubeflow_options' url, authority and token_file."""

    def __init__(self, folder, status=200, name="IP:127.0.0.1"):
        self.folder = folder
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=status", "-addext", "subjectAltName=" + name, "-keyout", self.path("key"), "-out", self.path("ca")],
                       check=True, capture_output=True)
        with open(self.path("token"), "w", encoding="ascii") as file:
            file.write("a token\n")
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Status)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("ca"), self.path("key"))
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.http.posts, self.http.status = [], status
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, **changes):
        return {"KUBEFLOW_TRAINER_SERVER_URL": "https://127.0.0.1:%d/apis/trainjobs/mine/status" % self.http.server_address[1],
                "KUBEFLOW_TRAINER_SERVER_CA_CERT": self.path("ca"), "KUBEFLOW_TRAINER_SERVER_TOKEN": self.path("token"), **changes}


def train(environment, workers=1):
    launch = ("run", "-np", str(workers), "--no-prefix", "--", "lockstep") if workers > 1 else ()
    return cli.lockstep(*launch, *TRAIN, env={**os.environ, **environment})


def the_chief_tells_how_far_it_is():
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder)
            done = train(server.environment(), workers)
            cli.equal((done.returncode, b"warning" in done.stderr), (0, False), done.stderr)
            *first, last = server.http.posts  # the whole takes less than 10 s
            assert len(first) <= 1, first  # the last status takes the place of a first one that is not on its way yet
            for path, token, kind, body in (*first, last):
                cli.equal((path, token, kind), ("/apis/trainjobs/mine/status", "Bearer a token", "application/json"))
                status = body["trainerStatus"]
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status["lastUpdatedTime"]), status
                numbers = {metric["name"]: float(metric["value"]) for metric in status["metrics"]}
                assert numbers["loss"] > 0 and 0 <= numbers["accuracy"] <= 1, status
            for post in first:
                cli.equal(post[3]["trainerStatus"]["progressPercentage"], 8)  # one step of 12
                assert post[3]["trainerStatus"]["estimatedRemainingSeconds"] >= 0
            cli.equal(last[3]["trainerStatus"]["progressPercentage"], 100)
            cli.equal(last[3]["trainerStatus"]["estimatedRemainingSeconds"], 0)


def expect_one_warning(environment, words):
    done = train(environment)
    cli.equal((done.returncode, done.stderr.count(b"warning")), (0, 1), done.stderr)
    assert re.search(words, done.stderr), done.stderr


def a_failure_is_one_warning():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, 403)
        expect_one_warning(server.environment(), rb"kubeflow.*POST https://127\.0\.0\.1")
        assert 1 <= len(server.http.posts) <= 2, server.http.posts
        expect_one_warning(server.environment(KUBEFLOW_TRAINER_SERVER_TOKEN="/no/file"), rb"token_file='/no/file' cannot be read: No such file")
        expect_one_warning(server.environment(KUBEFLOW_TRAINER_SERVER_CA_CERT="/no/file"), rb"'/no/file' has no certificates")
        with tempfile.TemporaryDirectory() as other:
            another = Server(other, name="DNS:elsewhere")
            expect_one_warning(another.environment(), rb"certificate verify failed")
            expect_one_warning(server.environment(KUBEFLOW_TRAINER_SERVER_CA_CERT=another.path("ca")), rb"certificate verify failed")
            cli.equal(another.http.posts, [])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        expect_one_warning({"KUBEFLOW_TRAINER_SERVER_URL": "http://127.0.0.1:%d/" % probe.getsockname()[1]}, rb"POST http://127")


def what_is_no_url_is_an_error():
    done = train({"KUBEFLOW_TRAINER_SERVER_URL": "ftp://127.0.0.1/"})
    cli.equal(done.returncode, 2, done.stderr)
    cli.contains(done.stderr, b"'ftp://127.0.0.1/' is no URL of http or https")


def a_server_that_does_not_answer_is_a_warning():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begin = time.monotonic()
        expect_one_warning({"KUBEFLOW_TRAINER_SERVER_URL": "http://127.0.0.1:%d/" % silent.getsockname()[1]}, rb"POST http://127")
        assert time.monotonic() - begin < 20 * cli.PACE


cli.main([the_chief_tells_how_far_it_is, a_failure_is_one_warning, what_is_no_url_is_an_error, a_server_that_does_not_answer_is_a_warning])
