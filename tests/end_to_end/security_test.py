#!/usr/bin/env python3
"""Strangers at the port, tokens and TLS: who does not belong is refused and counted, and training does not notice."""
import contextlib
import ctypes
import itertools
import json
import os
import resource
import secrets
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from cluster import LIMIT, LOCKSTEP, PACE, Cluster, drawn, half_of, last_json, tls_settings, train_command, wait_for_line

SHORT = train_command("--epochs", "2", "--limit", "2000", "--no-validation", "--json", "--verbose", "-1")
LONG = train_command("--epochs", "100000", "--limit", "2000", "--no-validation", "--verbose", "2")
PREFACE = 96  # bytes that open a data connection: src/cluster/net/preface.h
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty SETTINGS


def call(port):
    return socket.create_connection(("127.0.0.1", port), timeout=LIMIT)


def call_soon(port):
    for _ in range(200):
        try:
            return call(port)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("nobody listens on port %d" % port)


def is_closed(connection, timeout=5):
    """Whether the other side closes soon."""
    connection.settimeout(timeout)
    try:
        while connection.recv(65536):
            pass
        return True
    except socket.timeout:
        return False
    except OSError:
        return True


def only_of(ports):
    """A classic BPF program that lets IPv4 packets from and to these ports through: a busy machine has many others."""
    ports, accept = sorted(ports), 0x40000
    compare = [(0x15, 0, port) for port in ports]  # jeq
    code = [(0x28, None, 12), (0x15, "drop", 0x0800), (0xb1, None, 14), (0x48, None, 14), *compare, (0x48, None, 16), *compare]
    lines = []
    for at, (kind, other, value) in enumerate(code):
        left = len(code) - at - 1  # instructions behind it before "drop", after which "accept" comes
        yes, no = (0, left) if other == "drop" else (left + 1, 0) if kind == 0x15 else (0, 0)
        lines.append(struct.pack("HBBI", kind, yes, no, value))
    return b"".join([*lines, struct.pack("HBBI", 6, 0, 0, 0), struct.pack("HBBI", 6, 0, 0, accept)])


class Capture:
    """All bytes of TCP segments from and to the ports on the loopback interface, one after the other, while it is open."""
    END = 9  # the port to which the last packet goes

    def __init__(self, ports):
        self.ports = set(ports)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
        program = ctypes.create_string_buffer(only_of(self.ports | {self.END}))
        self.socket.setsockopt(socket.SOL_SOCKET, 26,  # SO_ATTACH_FILTER
                               struct.pack("HP", len(program) // 8, ctypes.addressof(program)))
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.2)
        self.packets = []
        self.last = secrets.token_bytes(16)  # in the packet after which the capture ends
        self.over = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            try:
                packet, address = self.socket.recvfrom(1 << 17)
            except socket.timeout:
                if self.over:
                    return
                continue
            if self.last in packet:
                return
            if address[2] != socket.PACKET_OUTGOING:  # each packet of lo is seen a second time
                self.keep(packet)

    def keep(self, packet):
        header = 14 + (packet[14] & 15) * 4
        if packet[23] == socket.IPPROTO_TCP:
            source, target = struct.unpack(">HH", packet[header:header + 4])
            if source in self.ports or target in self.ports:
                self.packets.append((source, target, packet[header + (packet[header + 12] >> 4) * 4:]))

    def close(self):
        """What was sent before is captured, however far behind the thread is."""
        self.over = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(self.last, ("127.0.0.1", self.END))
        self.thread.join()
        self.socket.close()

    def streams(self):
        """By direction of a connection, so that what is cut at a segment's end is found too."""
        streams = {}
        for source, target, data in self.packets:
            streams.setdefault((source, target), []).append(data)
        return [b"".join(parts) for parts in streams.values()]


def may_capture():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
        return True
    except (PermissionError, OSError, AttributeError):
        return False


def frame(kind, flags, stream, body):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def call_headers():
    """Of a gRPC call, spelled out."""
    fields = ((":method", "POST"), (":scheme", "http"), (":path", "/lockstep.Cluster/Control"), (":authority", "x"),
              ("te", "trailers"), ("content-type", "application/grpc"))
    return b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
                    for name, value in fields)


def resets():
    """Calls that are opened and reset at once, without end: 300 at a time."""
    for first in itertools.count(1, 600):
        yield b"".join(frame(1, 5, first + 2 * i, call_headers()) + frame(3, 0, first + 2 * i, b"\0\0\0\x08")
                       for i in range(300))


FLOODS = {"resets": resets, "pings": lambda: itertools.repeat(frame(6, 0, 0, bytes(8)) * 500),
          "settings": lambda: itertools.repeat(frame(4, 0, 0, b"") * 500),
          "continuations": lambda: itertools.repeat(frame(1, 0, 1, call_headers()) + frame(9, 0, 1, b"") * 500)}


def send_frames(dial, flood, over):
    """On one connection after the other, until over."""
    while not over.is_set():
        with contextlib.suppress(OSError):
            with dial() as connection:
                connection.sendall(HTTP2)
                for words in flood():
                    if over.is_set():
                        return
                    connection.sendall(words)


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def token_file(self, name="token"):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
        return path

    def resident(self, task):
        with open("/proc/%d/statm" % task.pid) as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def expect_unmoved(self, cluster, dial, *floods):
        """Two workers train; each flood comes for a second. They go on, and have no more memory than before."""
        first = cluster.tasks[("worker", 0)]
        wait_for_line(first.stdout, "Epoch 2/")
        before = self.resident(first)
        for name in floods:
            with self.subTest(flood=name):
                over = threading.Event()
                thread = threading.Thread(target=send_frames, args=(dial, FLOODS[name], over))
                thread.start()
                first.stdout.skip()
                for _ in range(3):
                    wait_for_line(first.stdout, "^Epoch")
                time.sleep(1)
                over.set()
                thread.join()
                self.assertLess(self.resident(first) - before, 50 << 20)
        wait_for_line(first.stdout, "^Epoch")
        for index in range(2):
            self.assertIsNone(cluster.tasks[("worker", index)].poll())
            cluster.kill(index)
        return cluster.finish()[("worker", 0)][2]

    def expect_equal_weights(self, results):
        for status, _, stderr in results.values():
            self.assertEqual(status, 0, stderr)
        chief = last_json(next(iter(results.values()))[1])
        return chief["weights_sha256"]


@half_of
class Strangers(Base):
    """All against worker 0, with worker 1 missing or while it trains."""

    def visit(self, port):
        """One of each kind of stranger; returns their sockets."""
        preface = b"LSDATA1\n" + struct.pack("<IIQQ", 1, 1, 1, 1) + secrets.token_bytes(16) + bytes(16)
        preface += bytes(PREFACE - len(preface))
        kinds = [b"", b"G", b"GET / HTTP/1.1\r\n\r\n", b"PRI", HTTP2, HTTP2 + b"\xff" * 200, preface, preface[:30],
                 b"\x16\x03\x01\x02\0\1\0", secrets.token_bytes(5000), b"LSDATA1\n" + b"\xff" * (PREFACE - 8),
                 HTTP2 + b"\xff\xff\xff\0\0\0\0\0\1" + bytes(100000)]
        strangers = [call_soon(port) for _ in kinds]
        for stranger, words in zip(strangers, kinds):
            with contextlib.suppress(OSError):
                stranger.sendall(words)
        return strangers

    def test_join_and_training_with_strangers(self):
        cluster = Cluster(2, SHORT, {"LOCKSTEP_TOKEN_FILE": self.token_file()})
        cluster.start(0)
        strangers = self.visit(cluster.ports[0])
        cluster.start(1)
        results = cluster.finish()
        for stranger in strangers:
            stranger.close()
        self.expect_equal_weights(results)
        stderr = results[("worker", 0)][2]
        for reason in ("its first bytes are not Lockstep's", "it says it is rank 1's, for data"):
            self.assertEqual(stderr.count(reason), 1, stderr)
        self.assertRegex(stderr, "connections refused in all: ")

    def flood(self, port, count, words, errors):
        """Opens count connections without closing any itself, as far as descriptors go."""
        mine = []
        for _ in range(count):
            try:
                connection = call(port)
                mine.append(connection)
                connection.sendall(words)
            except OSError as error:
                errors.append(error)
            if len(mine) > 1500:
                mine.pop(0).close()
        for connection in mine:
            connection.close()

    def open_files(self, task):
        return len(os.listdir("/proc/%d/fd" % task.pid))

    def test_ten_thousand_connections(self):
        """In a join and in training: neither stalls, and neither memory nor descriptors run out."""
        cluster = Cluster(2, LONG, {"LOCKSTEP_LOG": "warning"})
        cluster.start(0)
        call_soon(cluster.ports[0]).close()
        errors = []
        floods = [threading.Thread(target=self.flood, args=(cluster.ports[0], 2500, words, errors))
                  for words in (b"", b"PRI", HTTP2, b"junk")]
        start = time.monotonic()
        for flood in floods:
            flood.start()
        cluster.start(1)
        wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
        trained = time.monotonic() - start
        peak_files = peak_memory = 0
        while any(flood.is_alive() for flood in floods):
            peak_files = max(peak_files, self.open_files(cluster.tasks[("worker", 0)]))
            peak_memory = max(peak_memory, self.resident(cluster.tasks[("worker", 0)]))
            time.sleep(0.02)
        for flood in floods:
            flood.join()
        for index in range(2):
            self.assertIsNone(cluster.tasks[("worker", index)].poll())
            cluster.kill(index)
        stderr = cluster.finish()[("worker", 0)][2]
        self.assertLess(trained, 15 * PACE)
        self.assertLess(peak_files, 1200)
        self.assertLess(peak_memory, 400 << 20)
        self.assertEqual(stderr.count("too many connections"), 1, stderr)

    def test_floods_of_frames(self):
        """Of HTTP/2, in one connection after the other, without the token."""
        cluster = Cluster(2, LONG, {"LOCKSTEP_LOG": "warning", "LOCKSTEP_TOKEN_FILE": self.token_file()})
        cluster.start_all()
        others = [name for name in FLOODS if name != "resets"]
        stderr = self.expect_unmoved(cluster, lambda: call(cluster.ports[0]), "resets", *drawn(others, self.id()))
        self.assertIn("it opens a second call and has not proved to be a worker", stderr)

    def test_bytes_of_strangers_stay_out_of_the_log(self):
        """gRPC would print a header that is none as it is, once for each stranger."""
        cluster = Cluster(2, LONG, {"LOCKSTEP_LOG": "warning"})
        cluster.start_all()
        wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
        for name in (b"content-type", b"te", b"grpc-timeout", b":path", b"\x1b[31mred"):
            for value in (b"applicati\xffn/grpc", b"\x1b[2J", b"\0\r\n"):
                block = b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
                with call(cluster.ports[0]) as stranger, contextlib.suppress(OSError):
                    stranger.sendall(HTTP2 + frame(1, 5, 1, block))
                    is_closed(stranger, 0.2)
        for index in range(2):
            cluster.kill(index)
        stderr = cluster.finish()[("worker", 0)][2]
        for line in stderr.splitlines():
            self.assertRegex(line, "^lockstep: [ -~]*$")

    def test_slow_words_are_cut_off(self):
        """A byte a second, an HTTP/2 connection that never says Hello: closed after ten seconds, both."""
        cluster = Cluster(2, LONG, {"LOCKSTEP_JOIN_TIMEOUT": "14", "LOCKSTEP_LOG": "warning"})
        cluster.start(0)
        slow, mute = call_soon(cluster.ports[0]), call_soon(cluster.ports[0])
        mute.sendall(HTTP2)
        start = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in b"PRI * HTTP/2.0":
                slow.sendall(bytes([byte]))
                time.sleep(1)
        self.assertTrue(is_closed(slow, 1))
        self.assertTrue(is_closed(mute, 1))
        slow.close()
        mute.close()
        self.assertLess(time.monotonic() - start, 16 * PACE)
        status, _, stderr = cluster.finish()[("worker", 0)]
        self.assertEqual(status, 138, stderr)
        self.assertEqual(stderr.count("it has not said in time that it is a worker"), 1, stderr)

    @unittest.skipUnless(may_capture(), "needs raw sockets")
    def test_a_replayed_data_connection(self):
        """What a worker has shown when the generation was formed opens nothing a second time."""
        cluster = Cluster(2, LONG, {"LOCKSTEP_TRANSPORT": "tcp", "LOCKSTEP_TOKEN_FILE": self.token_file()})
        capture = Capture(cluster.ports)
        try:
            cluster.start(0)
            cluster.start(1)
            wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
        finally:
            capture.close()
        prefaces = [data[:PREFACE] for _, target, data in capture.packets
                    if target == cluster.ports[0] and data.startswith(b"LSDATA1\n")]
        self.assertGreaterEqual(len(prefaces), 1)
        with call(cluster.ports[0]) as replay:
            replay.sendall(prefaces[-1])
            self.assertEqual(replay.recv(1), b"")
        cluster.kill(1)
        status, _, stderr = cluster.finish()[("worker", 0)]
        self.assertEqual(status, 138, stderr)
        self.assertIn("it says it is rank 1's, for data", stderr)
        self.assertIn("worker:1 (rank 1", stderr)


@half_of
class Tokens(Base):
    def last_lines(self, cluster):
        results = cluster.finish()
        for status, _, stderr in results.values():
            self.assertEqual(status, 2, stderr)
        return [stderr.strip().splitlines()[-1] for _, _, stderr in results.values()]

    def test_one_with_one_without(self):
        cluster = Cluster(2, SHORT)
        cluster.start(0)
        cluster.environment["LOCKSTEP_TOKEN_FILE"] = self.token_file()
        cluster.start(1)
        for line in self.last_lines(cluster):
            self.assertRegex(line, "UNAUTHENTICATED: .*token.*LOCKSTEP_TOKEN_FILE")

    def test_another_token(self):
        cluster = Cluster(2, SHORT, {"LOCKSTEP_TOKEN_FILE": self.token_file()})
        cluster.start(0)
        cluster.environment["LOCKSTEP_TOKEN_FILE"] = self.token_file("other")
        cluster.start(1)
        lines = self.last_lines(cluster)
        self.assertEqual(lines[0], lines[1])
        self.assertIn("worker:0 (rank 0) and worker:1 (rank 1) have different tokens", lines[0])

    @unittest.skipUnless(may_capture(), "needs raw sockets")
    def test_the_token_is_never_sent(self):
        path = self.token_file()
        with open(path) as file:
            token = file.read().strip()
        cluster = Cluster(2, SHORT, {"LOCKSTEP_TOKEN_FILE": path, "LOCKSTEP_TRANSPORT": "tcp"})
        capture = Capture(cluster.ports)
        try:
            cluster.start_all()
            results = cluster.finish()
        finally:
            capture.close()
        self.expect_equal_weights(results)
        streams = capture.streams()
        self.assertTrue([stream for stream in streams if b"lockstep.Cluster/Control" in stream])
        for stream in streams:
            self.assertFalse(token.encode() in stream)
            self.assertFalse(bytes.fromhex(token) in stream)


@half_of
class Tls(Base):
    def certs(self, name="certs", tasks="worker:3"):
        folder = os.path.join(self.folder, name)
        done = subprocess.run([LOCKSTEP, "certs", folder, "--tasks", tasks], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def start(self, cluster, folders):
        """A worker for each folder; None: without TLS."""
        plain = dict(cluster.environment)
        for index, folder in enumerate(folders):
            cluster.environment = dict(plain, **(tls_settings(folder, "worker-%d" % index) if folder else {}))
            cluster.start(index)

    def planted(self, pattern, folders, environment):
        """Hands a variable full of the pattern round; returns what was seen on the wire."""
        cluster = Cluster(2, [os.environ.get("PLANTED", "build/tests/end_to_end/planted"), pattern],
                          dict(environment, LOCKSTEP_TRANSPORT="tcp", LOCKSTEP_ALGORITHM="exchange"))
        capture = Capture(cluster.ports)
        try:
            self.start(cluster, folders)
            results = cluster.finish()
        finally:
            capture.close()
        for status, _, stderr in results.values():
            self.assertEqual(status, 0, stderr)
        return b"".join(capture.streams())

    @unittest.skipUnless(may_capture(), "needs raw sockets")
    def test_nothing_goes_in_the_clear(self):
        pattern, token = secrets.token_hex(12), self.token_file()
        with open(token) as file:
            secret = file.read().strip().encode()
        folder = self.certs()
        clear = self.planted(pattern, [None, None], {"LOCKSTEP_TOKEN_FILE": token})
        self.assertTrue(pattern.encode() in clear)
        self.assertTrue(b"lockstep.Cluster/Control" in clear)
        self.assertFalse(secret in clear)
        hidden = self.planted(pattern, [folder, folder], {"LOCKSTEP_TOKEN_FILE": token})
        self.assertGreater(len(hidden), 200000)
        for words in (pattern.encode(), secret, bytes.fromhex(secret.decode()), b"lockstep.Cluster", b"planted",
                      b"LSDATA1", b"worker-1.lockstep"):
            self.assertFalse(words in hidden, words)

    def test_the_same_weights(self):
        """Through shared memory and TCP, and as without TLS."""
        folder, digests = self.certs(), set()
        for folders, transport in (([None] * 3, "auto"), *(([folder] * 3, name) for name in ("auto", "tcp"))):
            cluster = Cluster(3, SHORT, {"LOCKSTEP_TRANSPORT": transport})
            self.start(cluster, folders)
            results = cluster.finish()
            digests.add(self.expect_equal_weights(results))
            self.assertNotIn("refused a", results[("worker", 0)][2])
        self.assertEqual(len(digests), 1, digests)

    def test_another_authority(self):
        cluster = Cluster(2, SHORT)
        self.start(cluster, [self.certs("one"), self.certs("two")])
        for status, _, stderr in cluster.finish().values():
            self.assertEqual(status, 2, stderr)
            self.assertRegex(stderr.strip().splitlines()[-1], "UNAUTHENTICATED: .*LOCKSTEP_TLS_CA")

    def test_one_without_tls(self):
        """Both end as soon as they have met, with the same words."""
        folder = self.certs()
        for has, first, environment in ((0, 0, {}), (1, 0, {"LOCKSTEP_TOKEN_FILE": self.token_file()})):
            with self.subTest(has=has, first=first):
                cluster = Cluster(2, SHORT, dict(environment, LOCKSTEP_JOIN_TIMEOUT="25"))
                plain, begun = dict(cluster.environment), time.monotonic()
                for index in (first, 1 - first):
                    own = tls_settings(folder, "worker-%d" % index) if index == has else {}
                    cluster.environment = dict(plain, **own)
                    cluster.start(index)
                    if index == first:
                        call_soon(cluster.ports[index]).close()
                results = cluster.finish()
                took = time.monotonic() - begun
                words = r"UNAUTHENTICATED: worker:%d \(.*\) has TLS and worker:%d \(.*\) has none: set LOCKSTEP_TLS_"
                for status, _, stderr in results.values():
                    self.assertEqual(status, 2, stderr)
                    self.assertRegex(stderr.strip().splitlines()[-1], words % (has, 1 - has))
                self.assertLess(took, 15 * PACE)

    def secure_call(self, port, folder, task):
        """A TLS connection to the port, with the task's certificate or none."""
        context = ssl.create_default_context(cafile=folder + "/ca.pem")
        context.check_hostname = False
        if task:
            context.load_cert_chain("%s/%s.pem" % (folder, task), "%s/%s.key" % (folder, task))
        connection = context.wrap_socket(call(port))
        verdict = connection.recv(100)
        if verdict != b"\x06":
            connection.close()
            raise OSError(verdict)
        return connection

    def test_floods_of_frames(self):
        """Without a certificate nobody comes as far as gRPC; with one, and without the token, not further than in the clear."""
        folder = self.certs()
        cluster = Cluster(2, LONG, {"LOCKSTEP_LOG": "warning", "LOCKSTEP_TOKEN_FILE": self.token_file()})
        self.start(cluster, [folder, folder])
        port = cluster.ports[0]
        call_soon(port).close()
        with self.assertRaisesRegex(OSError, "is missing"):
            self.secure_call(port, folder, None)
        stderr = self.expect_unmoved(cluster, lambda: self.secure_call(port, folder, "worker-2"), "resets", "pings")
        self.assertIn("its certificate is missing", stderr)
        self.assertRegex(stderr, "it opens a second call and has not proved|it sends more frames of HTTP/2")

    def test_probes(self):
        """Workers with TLS answer who shows a certificate; others learn that they need one."""
        folder = self.certs()
        cluster = Cluster(2, LONG)
        self.start(cluster, [folder, folder])
        wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
        address = "127.0.0.1:%d" % cluster.ports[1]
        commands = (["check", "--connect", "--tf-config", json.dumps(
            {"cluster": cluster.cluster, "task": {"type": "worker", "index": 0}})], ["top", "--once", "--interval", "0.2", address])
        for command in commands:
            for own, status, words in ((tls_settings(folder, "worker-1"), 0, "member|worker:1"), ({}, 1, "it has TLS")):
                done = subprocess.run([LOCKSTEP, *command], env=dict(os.environ, **own), capture_output=True, text=True,
                                      timeout=LIMIT)
                self.assertEqual(done.returncode != 0, status != 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout + done.stderr, words)
        with call(cluster.ports[0]) as stranger:
            stranger.sendall(b"LSPROBE\n")
            self.assertEqual(stranger.recv(4096), b"LOCKSTEP-TLS")
        for index in range(2):
            cluster.kill(index)
        cluster.finish()

    def expect_own_error(self, settings, *words):
        cluster = Cluster(2, SHORT, settings)
        cluster.start(0)
        status, _, stderr = cluster.finish()[("worker", 0)]
        self.assertEqual(status, 2, stderr)
        for word in words:
            self.assertIn(word, stderr)

    def test_own_files_that_do_not_fit(self):
        one, two = self.certs("one"), self.certs("two")
        good = tls_settings(one, "worker-0")
        self.expect_own_error(tls_settings(one, "worker-1"), "is for 'worker-1.lockstep', not for 'worker-0.lockstep'")
        self.expect_own_error(dict(good, LOCKSTEP_TLS_CA=two + "/ca.pem"), "is not signed by the authority")
        self.expect_own_error(dict(good, LOCKSTEP_TLS_KEY=two + "/worker-0.key"), "belongs to another key")
        self.expect_own_error(dict(good, LOCKSTEP_TLS_KEY=""), "LOCKSTEP_TLS_KEY is not set")
        self.expect_own_error(dict(good, LOCKSTEP_TLS_CA="/nonexistent"), "LOCKSTEP_TLS_CA='/nonexistent'")

    def test_certs_overwrites_nothing(self):
        folder = self.certs()
        before = {name: os.stat(os.path.join(folder, name)) for name in os.listdir(folder)}
        self.assertEqual({stat.st_mode & 0o777 for stat in before.values()}, {0o600})
        done = subprocess.run([LOCKSTEP, "certs", folder, "--tasks", "chief"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is there already", done.stderr)
        self.assertEqual(sorted(before), sorted(os.listdir(folder)))

    def test_strangers_at_a_tls_port(self):
        """More than the limit on descriptors would let in, before and while the workers train."""
        words = (b"", b"\x16\x03\x01\x02\0\1\0", HTTP2, secrets.token_bytes(100))
        cluster = Cluster(2, ["bash", "-c", 'ulimit -Sn 300 && exec "$@"', "bash", *LONG], {"LOCKSTEP_LOG": "warning"})
        folder = self.certs()
        self.start(cluster, [folder])
        call_soon(cluster.ports[0]).close()
        with contextlib.ExitStack() as strangers:
            for number in range(1000):
                stranger = strangers.enter_context(call(cluster.ports[0]))
                with contextlib.suppress(OSError):
                    stranger.sendall(words[number % len(words)])
            cluster.environment.update(tls_settings(folder, "worker-1"))
            cluster.start(1)
            wait_for_line(cluster.tasks[("worker", 0)].stdout, "Epoch 2/")
        for index in range(2):
            self.assertIsNone(cluster.tasks[("worker", index)].poll())
            cluster.kill(index)
        cluster.finish()


if __name__ == "__main__":
    unittest.main()
