"""lockstep bench on GPUs: what NCCL adds is right, the output is that of the host's, and what is wrong is found.

usage: bench_gpus.py LOCKSTEP PLUGIN FLIP, the plugin the emulated one"""
import json
import os
import sys

import cli

PLUGIN, FLIP = map(os.path.abspath, sys.argv[2:4])
NCCL = ["all-reduce", "--communication", "nccl", "--iterations", "2", "--warmup", "1"]


def bench(workers, *arguments, **variables):
    launcher = ["run", "-np", str(workers), "--no-prefix", "--", "lockstep"] if workers else []
    done = cli.lockstep(*launcher, "bench", *NCCL, *arguments, env=cli.environment(LOCKSTEP_PLUGIN=PLUGIN, **variables))
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()


def checked(workers, *arguments):
    status, lines, errors = bench(workers, "--check", "--json", "--bytes", "0,8,1000,300000", *arguments)
    cli.equal(status, 0, (workers, arguments, errors))
    cli.equal(lines[-2], "# wrong elements: 0 (every bit is right)")
    return lines, json.loads(lines[-1])


def the_gpus_of_one_worker():
    lines, result = checked(0)
    cli.equal(lines[0], "# all-reduce, 1 worker with 2 GPUs, transport nccl, algorithm nccl, in place")
    host = cli.lockstep("bench", "all-reduce", "--bytes", "8", "--iterations", "2", "--json")
    whole = json.loads(host.stdout.decode().splitlines()[-1])
    cli.equal((sorted(result), sorted(result["rows"][0])), (sorted(whole), sorted(whole["rows"][0])))
    cli.equal((result["workers"], result["devices"], result["transport"], result["in_place"]), (1, 2, "nccl", True))
    cli.equal([(row["bytes"], row["count"], row["algorithm"]) for row in result["rows"]],
              [(0, 0, "nccl"), (8, 2, "nccl"), (1000, 250, "nccl"), (300000, 75000, "nccl")])
    cli.equal(result["rows"][3]["busbw_gbps"], result["rows"][3]["algbw_gbps"])  # 2(n-1)/n of two


def the_gpus_of_several_workers():
    for dtype, op, more in (("float32", "sum", []), ("float64", "min", ["--touch"]), ("int32", "sum", ["--devices", "gpu:1,gpu:0"]),
                            ("int64", "max", ["--devices", "gpu:1"])):
        _, result = checked(2, "--dtype", dtype, "--op", op, *more)
        devices = 1 if more[-1:] == ["gpu:1"] else 2
        cli.equal((result["workers"], result["devices"], result["dtype"], result["op"]), (2, devices, dtype, op))
        factor = 2 * (2 * devices - 1) / (2 * devices)
        row = result["rows"][3]
        assert abs(row["busbw_gbps"] / row["algbw_gbps"] - factor) < 1e-6, row
        assert 0 < row["time_min_us"] <= row["time_us"] <= row["time_max_us"], row


def a_flipped_bit_is_found():
    for workers in (0, 2):
        status, lines, _ = bench(workers, "--bytes", "8,4K", "--check", "--json", LD_PRELOAD=FLIP,
                                 ASAN_OPTIONS="verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", ""))
        cli.equal(status, 1)
        cli.equal([row["wrong"] for row in json.loads(lines[-1])["rows"]], [1, 1])
        cli.equal(lines[-2], "# wrong elements: 2 (FAILED)")


def where_there_is_nothing_to_add():
    for devices, status, message in (("gpu:0", 1, "communication NCCL: one GPU alone has nobody to add with"),
                                     ("cpu:0", 2, "communication NCCL: device 0 of rank 0 is no GPU")):
        found, lines, errors = bench(0, "--devices", devices)
        cli.equal((found, lines), (status, []))
        cli.contains(errors, message)


cli.main([the_gpus_of_one_worker, the_gpus_of_several_workers, a_flipped_bit_is_found, where_there_is_nothing_to_add])
