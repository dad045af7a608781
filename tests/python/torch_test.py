#!/usr/bin/env python3
"""lockstep.torch and its c10d backend. It needs torch: scripts/python-check makes a virtual environment with it."""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import tracemalloc
import unittest
from unittest import mock

import torch

import hosts
from lockstep.torch import c10d, elastic
from ranks import HERE, LIMIT, LOCKSTEP, environment, free_port, run

SEED = os.environ.get("LOCKSTEP_TEST_SEED") or str(int.from_bytes(os.urandom(4), "little"))


class Torch(unittest.TestCase):
    def whole(self, count, program, *arguments, options=(), **extra):
        status, out, err = run(count, program, *arguments, options=options, timeout=3 * LIMIT, **extra)
        self.assertEqual((status, out.count("whole")), (0, count), f"seed {SEED}\n{out}{err}")
        return out, err

    def test_collectives(self):
        for count, transport in ((1, "auto"), (2, "auto"), (3, "tcp"), (4, "shm")):
            with self.subTest(count=count, transport=transport):
                self.whole(count, "torch_ops.py", SEED, LOCKSTEP_TRANSPORT=transport)

    def test_optimizer(self):
        for count in (1, 2, 3):
            with self.subTest(count=count):
                self.whole(count, "torch_optimizer.py", SEED)

    def test_dropped(self):
        """Whoever drops the handle of a call drops no memory that the call reads or writes."""
        for how in ("order", "negotiate"):
            with self.subTest(how=how), tempfile.TemporaryDirectory() as folder:
                self.whole(2, "torch_dropped.py", os.path.join(folder, "flag"), how)

    def test_names(self):
        for count in (1, 2, 3):
            with self.subTest(count=count):
                self.whole(count, "torch_names.py")

    def test_horovod_names(self):
        self.whole(1, "horovod_names.py", "lockstep.torch")

    def test_elastic(self):
        """A killed rank, the first one and the last one, changes no bit of the result."""
        def results(victim):
            out, _ = self.whole(3, "torch_elastic.py", victim, options=("--restart", "1"))
            found = re.findall(r"whole (\S+) lr (\S+) resets (\d)", out)
            self.assertEqual({number for _, _, number in found}, {"0"} if victim == "-" else {"0", "1"}, out)
            return {(total, rate) for total, rate, _ in found}
        undisturbed = results("-")
        self.assertEqual(len(undisturbed), 1)
        for victim in ("2:5", "0:7", "1:0"):
            with self.subTest(victim=victim):
                self.assertEqual(results(victim), undisturbed)

    def test_messages(self):
        for count in (2, 3):
            with self.subTest(count=count):
                self.whole(count, "torch_messages.py")

    def test_sampler(self):
        """Every example comes, some twice where ranks get unequal numbers, and memory does not grow with the ranks."""
        def divide(count, size, done=0):
            found, peaks = [], []
            for rank in range(size) if size < 9 else (size - 1,):
                with mock.patch.multiple(elastic, rank=lambda: rank, size=lambda: size, is_initialized=lambda: True):
                    tracemalloc.start()
                    sampler = elastic.ElasticSampler(range(count), seed=3)
                    sampler.load_state_dict({"epoch": 1, "processed_num": done})
                    peaks.append(tracemalloc.get_traced_memory()[1])
                    tracemalloc.stop()
                found.append(list(sampler))
            return found, sampler.remaining_indices, max(peaks)
        for count, size, done in ((10, 3, 0), (10, 3, 4), (2, 7, 0), (7, 7, 0), (5, 2, 5), (10, 4, 9)):
            parts, rest, _ = divide(count, size, done)
            padded = (rest * (size + 1))[:-(-len(rest) // size) * size]
            self.assertEqual(parts, [padded[rank::size] for rank in range(size)])
        self.assertLess(divide(20000, 256)[2], 2 * divide(20000, 1)[2])

    def test_workers(self):
        """The workers of a DataLoader are forked: they keep no socket open and no rank from its end, and Ctrl-C is prompt."""
        begun = time.monotonic()
        self.whole(2, "torch_workers.py", "ends")
        self.assertLess(time.monotonic() - begun, 60)
        _, _, err = run(2, "torch_workers.py", "killed", timeout=LIMIT)
        self.assertRegex(err, r"\[0\] .*LockstepError.*its connection was closed")
        _, out, err = run(2, "torch_workers.py", "interrupted", timeout=LIMIT)
        self.assertIn("[1] KeyboardInterrupt", err)
        self.assertRegex(err, r"\[0\] .*LockstepError.*KeyboardInterrupt")
        self.assertLess(float(re.search(r"\[1\] ended after ([\d.]+)", out).group(1)), 5, out)

    def test_ddp(self):
        """Equal to gloo's within the order of float32's additions, under lockstep run and torchrun; twice with the same bits."""
        with tempfile.TemporaryDirectory() as folder:
            def weights(backend, count, name, **extra):
                path = os.path.join(folder, name)
                self.whole(count, "torch_ddp.py", backend, path, **extra)
                return torch.cat([p.reshape(-1) for p in torch.load(path)])
            for count in (2, 4):
                ours = weights("lockstep", count, "ours")
                theirs = weights("gloo", count, "theirs", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
                self.assertLess((ours - theirs).abs().max().item(), 1e-5)
                for transport in ("tcp", "shm"):
                    self.assertTrue(torch.equal(ours, weights("lockstep", count, "again", LOCKSTEP_TRANSPORT=transport)))

    @unittest.skipUnless(hosts.works(), "unshare makes no namespace here")
    def test_layouts(self):
        """One host of four ranks and two hosts of two: the same bits, by DDP and by DistributedOptimizer."""
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for layout, words in (((4,), "through shared memory\n"), ((2, 2), "2 hosts of 2 and tcp")):
                path = os.path.join(folder, str(len(layout)))
                out = hosts.run(layout, "torch_bits.py", path)
                self.assertEqual(out.count("whole"), 4, out)
                self.assertIn(words, out)
                found.append(torch.cat([p.reshape(-1) for p in torch.load(path)]))
            self.assertTrue(torch.equal(*found))

    def test_port_is_held(self):
        """Nobody takes the port that a rank has told the others before the library listens there."""
        taken = []

        class Store(dict):
            set = dict.__setitem__

            def get(self, key):
                port = int(self["lockstep/0"].rsplit(":", 1)[1])
                with socket.socket() as thief, self.test.assertRaises(OSError):
                    thief.bind(("", port))
                return b"127.0.0.1:1"

        def communicator(**options):
            dual = socket.has_dualstack_ipv6()
            with socket.socket(socket.AF_INET6 if dual else socket.AF_INET) as library:  # as src/cluster/net/address.c
                library.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if dual:
                    library.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                library.bind(("", int(store["lockstep/0"].rsplit(":", 1)[1])))
                library.listen()
            taken.append(json.loads(options["tf_config"]))
        store = Store()
        store.test = self
        with mock.patch.object(c10d, "Communicator", communicator):
            c10d._meet(store, 0, 2, 5)
        self.assertEqual(taken, [{"cluster": {"worker": ["127.0.0.1:1"] * 2}, "task": {"type": "worker", "index": 0}}])

    def test_torchrun(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights")
            outside = {name: value for name, value in environment(OMP_NUM_THREADS="1").items() if name != "TF_CONFIG"}
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
                                   str(free_port()), os.path.join(HERE, "torch_ddp.py"), "lockstep", path],
                                  capture_output=True, text=True, timeout=2 * LIMIT, env=outside)
            self.assertEqual((done.returncode, done.stdout.count("whole")), (0, 2), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
