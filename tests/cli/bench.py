"""lockstep bench: every collective, type and order of addition is right in bits; the output has what it says."""
import itertools
import json
import os
import random
import re
import subprocess
import sys

import cli

SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", os.getpid()))
FLIP = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
QUICK = ["--iterations", "2", "--warmup", "1"]
SIZES = ["0", "8", "24", "1000", "70000", "300000"]
DTYPES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
OPS = ["sum", "mean", "min", "max"]
TREE = ["shared", "exchange", "direct", "halving-doubling"]  # AUTO takes what it measured to be the fastest
FACTORS = {"all-reduce": lambda n: 2 * (n - 1) / n, "all-gather": lambda n: (n - 1) / n, "broadcast": lambda n: 1,
           "reduce-scatter": lambda n: (n - 1) / n, "all-to-all": lambda n: (n - 1) / n, "send-receive": lambda n: 1}


def bench(workers, *arguments, env=None):
    """Runs it (workers 0: alone, without the launcher); returns the status and the chief's lines."""
    launcher = ["run", "-np", str(workers), "--no-prefix", "--", "lockstep"] if workers else []
    done = cli.lockstep(*launcher, "bench", *arguments, env=env)
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()


def checked(workers, collective, *arguments):
    """A run that must be right everywhere; returns its JSON object."""
    status, lines, errors = bench(workers, collective, "--bytes", ",".join(SIZES), *QUICK, "--check", "--json", *arguments)
    cli.equal(status, 0, (workers, collective, arguments, errors))
    result = json.loads(lines[-1])
    cli.equal([row["wrong"] for row in result["rows"]], [0] * len(SIZES), (workers, collective, arguments))
    cli.equal(lines[-2], "# wrong elements: 0 (every bit is right)")
    cli.equal(result["workers"], max(workers, 1))
    return result


def all_reduce_is_right_for_every_type_and_op():
    """A quarter of the 24 pairs of type and op, as the seed says, over three group sizes and two orders; tests/runtime/table_test.c has all."""
    print(f"# LOCKSTEP_TEST_SEED={SEED}")
    pairs = random.Random(SEED).sample(list(itertools.product(DTYPES, OPS)), 6)
    for index, (dtype, op) in enumerate(pairs[::2]):
        checked(2 + index % 3, "all-reduce", "--dtype", dtype, "--op", op, *["--in-place"][:index % 2])
    for index, (dtype, op) in enumerate(pairs[1::2]):
        result = checked(2 + index % 3, "all-reduce", "--dtype", dtype, "--op", op, "--communication", "ring",
                         *["--in-place"][:index % 2])
        cli.equal((result["algorithm"], result["dtype"], result["op"]), ("ring", dtype, op))


def sums_are_right_in_both_orders():
    for workers, algorithm, dtype in ((3, "direct", "float32"), (4, "exchange", "bfloat16"), (2, "shared", "float32"),
                                      (3, "halving-doubling", "float16"), (4, "ring", "float16"),
                                      (3, "ring", "float32"), (4, "auto", "float64")):
        result = checked(workers, "all-reduce", "--algorithm", algorithm, "--dtype", dtype, "--touch")
        cli.equal((result["algorithm"], result["touch"]), (algorithm, True))
        for row in result["rows"]:
            assert row["algorithm"] in (TREE if algorithm == "auto" else [algorithm]), row


def compressed_sums_are_right():
    for workers, compression, arguments in ((2, "bf16", ["--op", "mean"]), (4, "fp16", ["--in-place"]),
                                            (3, "bf16", ["--algorithm", "exchange"]), (3, "fp16", ["--algorithm", "direct"]),
                                            (4, "bf16", ["--communication", "ring", "--op", "mean"])):
        result = checked(workers, "all-reduce", "--compression", compression, "--transport", "tcp", *arguments)
        cli.equal(result["compression"], compression)
    status, lines, _ = bench(2, "all-reduce", "--bytes", "4K", *QUICK, "--transport", "tcp", "--compression", "bf16")
    cli.equal((status, lines[1]), (0, "# bf16 on the links; busbw counts the bytes of float32"))
    status, lines, _ = bench(2, "all-reduce", "--bytes", "4K", *QUICK, "--check", "--compression", "bf16")
    cli.equal((status, lines[1]), (0, "# compression bf16 changes nothing: there are no links between the workers"))
    cli.equal(lines[-1], "# wrong elements: 0 (every bit is right)")
    status, _, errors = bench(2, "all-reduce", "--bytes", "4K", *QUICK, "--compression", "bf16", "--op", "max")
    cli.equal(status, 2)
    cli.contains(errors, "compression bf16 is for sum and mean of float32, not for max of float32")


def reduce_scatter_is_right_in_both_orders():
    """A quarter of the pairs, as the seed says; tests/runtime/table_test.c has all."""
    print(f"# LOCKSTEP_TEST_SEED={SEED}")
    for index, (dtype, op) in enumerate(itertools.product(DTYPES, OPS)):
        if (index + index // 4 + SEED) % 4 == 0:
            checked(2 + index % 3, "reduce-scatter", "--dtype", dtype, "--op", op, "--communication", ["auto", "ring"][index // 4 % 2],
                    *["--in-place"][:index % 2])


def broadcast_and_all_gather_are_right():
    for collective, workers in (("broadcast", 3), ("all-gather", 4)):
        checked(workers, collective, "--dtype", "float16")
    checked(3, "all-gather", "--in-place", "--touch", "--dtype", "int64")


def all_to_all_and_send_receive_are_right():
    for index, (collective, transport) in enumerate(itertools.product(("all-to-all", "send-receive"), ("shm", "tcp"))):
        checked(2 + index % 3, collective, "--transport", transport, "--dtype", ["float32", "float16", "int64"][index % 3])


def alone():
    for collective in FACTORS:
        for launched in (0, 1):
            result = checked(launched, collective)
            cli.equal(result["workers"], 1)
    checked(0, "all-reduce", "--communication", "ring", "--op", "mean", "--dtype", "bfloat16")


def the_json_is_whole_and_agrees_with_itself():
    for collective, factor in FACTORS.items():
        status, lines, _ = bench(3, collective, "--bytes", "1002,64K", "--iterations", "7", "--json", "--transport", "shm",
                                 "--dtype", "int32")
        cli.equal(status, 0)
        result = json.loads(lines[-1])
        cli.equal((result["collective"], result["transport"], result["workers"], result["devices"]),
                  (collective, "tcp" if collective == "send-receive" else "shm", 3, 1))
        cli.equal(sorted(result), ["algorithm", "collective", "compression", "devices", "dtype", "in_place", "op", "rows", "touch",
                                   "transport", "workers"])
        cli.equal([(row["bytes"], row["count"], row["iterations"]) for row in result["rows"]],
                  [(1000, 250, 7), (65536, 16384, 7)])
        for row in result["rows"]:
            cli.equal(row["wrong"], None)
            assert 0 < row["time_min_us"] <= row["time_us"] <= row["time_max_us"], row
            assert 0 < row["cpu_us"] < 1e8, row
            near(row["algbw_gbps"], row["bytes"] / row["time_us"] / 1e3)
            near(row["busbw_gbps"], row["algbw_gbps"] * factor(3))


def digests_are_of_the_sum_alone():
    """One for every way to add in the tree; another one round the ring, and of each rank's values alone."""
    def digests(workers, *arguments):
        status, lines, errors = bench(workers, "all-reduce", "--bytes", "4K,300000", *QUICK, "--digest", "--json", *arguments)
        cli.equal(status, 0, errors)
        rows = json.loads(lines[-1])["rows"]
        assert all(re.fullmatch("[0-9a-f]{64}", row["digest"]) for row in rows), rows
        cli.equal([line.split()[-1] for line in lines if line[:1] not in "#{"], [row["digest"][:16] for row in rows])
        return [row["digest"] for row in rows]
    wanted = digests(3)
    for arguments in (["--check"], ["--in-place"], ["--algorithm", "exchange"], ["--transport", "tcp", "--algorithm", "direct"]):
        cli.equal(digests(3, *arguments), wanted, arguments)
    assert len({*wanted, *digests(3, "--algorithm", "ring"), *digests(2), *digests(2, "--op", "adasum")}) == 8
    cli.equal(json.loads(bench(2, "all-reduce", "--bytes", "4K", *QUICK, "--json")[1][-1])["rows"][0]["digest"], None)


def servers_add_the_same_bits():
    """Also where the bytes for workers keep step with those for servers: in blocks of a mebibyte or more."""
    for workers, servers, arguments in ((2, 1, []), (4, 2, ["--in-place"]), (3, 2, ["--op", "mean", "--dtype", "bfloat16"])):
        done = cli.lockstep("run", "-np", str(workers), "--ps", str(servers), "--no-prefix", "--", "lockstep", "bench", "all-reduce",
                            "--bytes", "70000,8M,12000004", "--iterations", "1", "--warmup", "0", "--check", "--json", "--algorithm",
                            "assist", "--transport", "tcp", *arguments, env=cli.environment(LOCKSTEP_PS="required"))
        cli.equal(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout.decode().splitlines()[-1])["rows"]
        cli.equal([(row["algorithm"], row["wrong"]) for row in rows], [("assist", 0)] * 3)


def the_links_are_those_that_were_asked_for():
    """Each collective on one of them, as the seed says. send-receive has links of its own, which are TCP's."""
    for index, collective in enumerate(FACTORS):
        transport = ("tcp", "shm")[(index + SEED) % 2]
        result = checked(3, collective, "--transport", transport)
        cli.equal(result["transport"], "tcp" if collective == "send-receive" else transport)


def near(got, want):
    assert abs(got - want) <= 1e-6 * want, (got, want)


def only_the_chief_prints_a_line_a_size():
    status, lines, errors = bench(2, "all-reduce", "--min-bytes", "4", "--max-bytes", "300", "--factor", "4")
    cli.equal(status, 0, errors)
    rows = [line.split() for line in lines if not line.startswith("#")]
    cli.equal([(row[0], row[1], row[2], row[3], row[-2]) for row in rows],
              [(str(size), str(size // 4), "float32", "sum", "-") for size in (4, 16, 64, 256)])
    for row in rows:
        assert len(row) == 11 and row[-1] in TREE, row
    cli.equal(lines[2].lstrip("# ").split(),
              ["bytes", "count", "type", "op", "min", "median", "max", "algbw", "busbw", "#wrong", "algorithm"])


def auto_explains_itself():
    status, lines, errors = bench(3, "all-reduce", "--bytes", "4K", *QUICK, "--explain", "--transport", "tcp")
    cli.equal(status, 0, errors)
    table = [line.lstrip("# ").split() for line in lines if re.match(r"# +(bytes|[0-9]+ +[0-9.-]+) ", line)]
    head, rows = table[0], [row for row in table if row[0].isdigit()]
    cli.equal(head, ["bytes", "exchange", "direct", "halving-doubling", "chosen"])
    assert rows, lines
    for row in rows:
        assert row[-1] in head[1:-1], row
        assert row[1 + head[1:].index(row[-1])] != "-", row
    status, lines, _ = bench(2, "all-reduce", "--bytes", "4K", *QUICK, "--explain", "--algorithm", "direct")
    cli.equal(status, 0)
    cli.contains("\n".join(lines), "algorithm direct, as LOCKSTEP_ALGORITHM says")
    status, _, errors = bench(2, "all-reduce", "--bytes", "4K", env=cli.environment(LOCKSTEP_ALGORITHM="ring"))
    cli.equal(status, 2)
    cli.contains(errors, "LOCKSTEP_ALGORITHM='ring' is none of auto, shared, two-level, exchange, direct")


def iterations_are_bounded():
    status, lines, _ = bench(0, "all-reduce", "--bytes", "8,64M", "--json")
    cli.equal(status, 0)
    small, large = rows = json.loads(lines[-1])["rows"]
    assert small["iterations"] > large["iterations"], rows
    for row in rows:
        assert 5 <= row["iterations"] <= 20000, row
        assert row["iterations"] == 5 or row["iterations"] * row["time_min_us"] < 1.5e6, row


def check_finds_one_flipped_bit():
    env = cli.environment(LD_PRELOAD=FLIP, ASAN_OPTIONS="verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", ""))
    for collective in FACTORS:
        status, lines, _ = bench(2, collective, "--bytes", "8,4K", *QUICK, "--check", "--json", env=env)
        cli.equal(status, 1, collective)
        cli.equal([row["wrong"] for row in json.loads(lines[-1])["rows"]], [1, 1], collective)
        cli.equal(lines[-2], "# wrong elements: 2 (FAILED)")


def errors_name_what_is_wrong():
    cases = [
        ([], "say what to measure"),
        (["--json"], "say first what to measure"),
        (["reduce"], "'reduce' is none of all-reduce, broadcast, all-gather, reduce-scatter, all-to-all, send-receive"),
        (["--frobnicate"], "unknown option '--frobnicate'"),
        (["all-reduce", "--frobnicate"], "unknown option '--frobnicate'"),
        (["all-reduce", "extra"], "unexpected argument 'extra'"),
        (["all-reduce", "--bytes"], "'--bytes' needs a value"),
        (["all-reduce", "--bytes", "1X"], "--bytes '1X' is no size"),
        (["all-reduce", "--bytes", "8,-1"], "--bytes '-1' is no size"),
        (["all-reduce", "--bytes", "1025G"], "--bytes '1025G' is no size"),
        (["all-reduce", "--bytes", "99999999999999999999"], "is no size"),
        (["all-reduce", "--bytes", "4KB"], "--bytes '4KB' is no size"),
        (["all-reduce", "--bytes", ""], "--bytes '' is no size"),
        (["all-reduce", "--bytes", ",".join(["8"] * 129)], "more than 128 sizes"),
        (["all-reduce", "--bytes", "8", "--factor", "2"], "leave --min-bytes, --max-bytes and --factor out"),
        (["all-reduce", "--min-bytes", "0"], "--min-bytes 0"),
        (["all-reduce", "--min-bytes", "2K", "--max-bytes", "1K"], "--min-bytes 2048 is not from 1 to --max-bytes 1024"),
        (["all-reduce", "--factor", "1"], "'--factor' needs a whole number from 2"),
        (["all-reduce", "--iterations", "0"], "'--iterations' needs a whole number from 1"),
        (["all-reduce", "--warmup", "-1"], "'--warmup' needs a whole number from 0"),
        (["all-reduce", "--dtype", "float8"], "--dtype 'float8' is none of float32,"),
        (["all-reduce", "--op", "median"], "--op 'median' is none of sum, mean, min, max"),
        (["all-reduce", "--transport", "pigeon"], "--transport 'pigeon' is none of auto, shm, tcp"),
        (["all-reduce", "--transport", "grpc"], "--transport 'grpc' is none of auto, shm, tcp"),
        (["all-reduce", "--algorithm", "star"], "--algorithm 'star' is none of ring, auto, shared, two-level, exchange, direct, halving-doubling, assist"),
        (["all-reduce", "--communication", "mpi"], "--communication 'mpi' is none of auto, ring, nccl"),
        (["all-reduce", "--communication", "nccl", "--algorithm", "direct"], "--algorithm is not for --communication nccl"),
        (["all-reduce", "--communication", "nccl", "--op", "mean"], "--op mean is not for --communication nccl"),
        (["broadcast", "--communication", "nccl"], "--communication nccl is for all-reduce only"),
        (["all-reduce", "--devices", "gpu"], "--devices is for --communication nccl"),
        (["all-reduce", "--communication", "auto", "--algorithm", "ring"], "--communication auto does not add in the order"),
        (["all-reduce", "--communication", "ring", "--algorithm", "direct"], "--communication ring does not add in the order"),
        (["broadcast", "--op", "sum"], "--op is for all-reduce and reduce-scatter only"),
        (["all-reduce", "--compression", "int8"], "--compression 'int8' is none of none, fp16, bf16"),
        (["broadcast", "--compression", "bf16"], "--compression is for all-reduce only"),
        (["all-to-all", "--in-place"], "--in-place is not for all-to-all and send-receive: the result has memory of its own"),
        (["reduce-scatter", "--algorithm", "direct"], "--algorithm is for all-reduce only"),
        (["all-gather", "--algorithm", "ring"], "--algorithm is for all-reduce only"),
        (["broadcast", "--explain"], "--explain is for all-reduce only"),
    ]
    for arguments, message in cases:
        status, lines, errors = bench(0, *arguments)
        cli.equal((status, lines), (2, []), arguments)
        cli.contains(errors, message)
        cli.equal(errors.count("\n"), 1, arguments)


def help_explains():
    texts = [cli.lockstep(*words) for words in (["help", "bench"], ["bench", "--help"], ["bench", "all-reduce", "-h"])]
    for done in texts:
        cli.equal((done.returncode, done.stderr, done.stdout), (0, b"", texts[0].stdout))
    for part in (b"usage: lockstep bench", b"10^9 bytes", b"--touch", b"2(n-1)/n"):
        cli.contains(texts[0].stdout, part)


def sanitized():
    with open(cli.LOCKSTEP, "rb") as file:
        return re.search(rb"__(asan|tsan)_init", file.read()) is not None


def too_little_memory_is_one_error():
    """A sanitizer wants terabytes of addresses for itself: there is no limit that it would survive."""
    limited = subprocess.run(["sh", "-c", 'ulimit -v 8000000; exec "$0" bench all-reduce --bytes 900G', cli.LOCKSTEP],
                             env=cli.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=cli.LIMIT)
    cli.equal((limited.returncode, limited.stdout), (1, b""))
    cli.contains(limited.stderr, b"no memory for a vector of 966367641600 bytes")


TESTS = [all_reduce_is_right_for_every_type_and_op, sums_are_right_in_both_orders, compressed_sums_are_right,
         reduce_scatter_is_right_in_both_orders, all_to_all_and_send_receive_are_right,
         broadcast_and_all_gather_are_right, alone, the_json_is_whole_and_agrees_with_itself,
         digests_are_of_the_sum_alone, servers_add_the_same_bits, the_links_are_those_that_were_asked_for, only_the_chief_prints_a_line_a_size, auto_explains_itself,
         iterations_are_bounded,
         errors_name_what_is_wrong, help_explains]
cli.main(TESTS + [check_finds_one_flipped_bit] * (FLIP is not None) + [too_little_memory_is_one_error] * (not sanitized()))
