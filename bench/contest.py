"""What the all-reduce benchmarks share: a program that measures sizes, the peers and how they are had, sizes as text."""
import argparse
import os
import re
import shutil

from run import HERE, Failure, environment, find_python_peers, last_object, run_together, say

PROGRAMS = HERE / "programs"
SIZES = "4K,64K,1M,16M,64M"
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# memory kept: glibc gives no freed block back to the system
KEEP = {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296:"
                          "glibc.malloc.top_pad=67108864"}
PEERS = {"openmpi": "OpenMPI", "mpich": "MPICH", "torch": "torch gloo", "tensorflow": "TensorFlow RING"}
PACKAGES = {"openmpi": ["openmpi-bin", "libopenmpi-dev"], "mpich": ["mpich", "libmpich-dev"]}
HINT = "A table without it is no result; say --without {} to leave it out all the same."


# --- a program that measures ---------------------------------------------------------------------------------------


class Program:
    """One way to reduce. commands(sizes) are what runs at the same time; the first prints the line of JSON."""

    peer = None  # Lockstep
    optional = False  # left out with a word where it does not work, for its peer is measured in another way, too

    def __init__(self, options, workers):
        self.options, self.workers = options, workers

    def measure(self, sizes=None):
        """{bytes: row}, as the programs print them; a wrong element is a failure."""
        sizes = sizes or self.options.bytes
        result = last_object(run_together(self.commands(sizes), self.options.timeout))
        if result["workers"] != self.workers:
            raise Failure(f"{self.name}: {result['workers']} workers took part, not {self.workers}")
        if [row["bytes"] for row in result["rows"]] != sizes:
            raise Failure(f"{self.name}: other sizes than asked for: {result['rows']}")
        for row in result["rows"]:
            if row["wrong"]:
                raise Failure(f"{self.name}, {row['bytes']} bytes: {row['wrong']} elements of the sum are wrong")
        self.look(result)
        return {row["bytes"]: row for row in result["rows"]}

    def look(self, result):
        pass


def join_sizes(sizes):
    return ",".join(map(str, sizes))


def lockstep_command(options, sizes, *more):
    """lockstep bench, of one worker."""
    return [options.lockstep, "bench", "all-reduce", "--bytes", join_sizes(sizes), "--in-place", "--json", *more,
            *(["--touch"] if options.touch else [])]


def mpi_command(options, peer, sizes):
    lifetime = int(options.timeout) + 5
    return [options.built / peer, join_sizes(sizes), options.seconds, int(options.touch), lifetime]


def python_command(options, peer, sizes):
    return [options.peers, "-B", PROGRAMS / f"{peer}_all_reduce.py", "--bytes", join_sizes(sizes), "--seconds",
            options.seconds, *(["--touch"] if options.touch else [])]


def works(program):
    try:
        program.measure(program.options.bytes[:1])
    except Failure as failure:
        say(f"  '{program.name}' does not work here and is left out: {str(failure).splitlines()[-1].strip()}")
        return False
    return True


def measure_in_turns(programs, rounds):
    """[(program, [{bytes: row} of each round])]"""
    results = [(program, []) for program in programs if not program.optional or works(program)]
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for program, measured in results:
            measured.append(program.measure())
    return results


# --- installing --------------------------------------------------------------------------------------------------


def install_packages(packages):
    say(f"installing {' '.join(packages)}")
    become = [] if os.geteuid() == 0 else ["sudo", "-n"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = [*become, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]
    run_together([([*apt, "update"], quiet)], 600)
    run_together([([*apt, "install", "-y", "--no-install-recommends", *packages], quiet)], 1200)


def compile_mpi(peer, folder, program="mpi_all_reduce.c"):
    run_together([([f"mpicc.{peer}", "-O2", "-o", str(folder / peer), str(PROGRAMS / program)],
                   dict(os.environ))], 120)


def find_mpi(peer, folder):
    """Compiles the program, after installing what is missing; the version."""
    try:
        if not shutil.which(f"mpirun.{peer}") or not shutil.which(f"mpicc.{peer}"):
            install_packages(PACKAGES[peer])
        try:
            compile_mpi(peer, folder)
        except Failure:  # the compiler's wrapper comes without mpi.h
            install_packages(PACKAGES[peer])
            compile_mpi(peer, folder)
        text = run_together([([f"mpirun.{peer}", "--version"], environment())], 20)
    except Failure as failure:
        raise Failure(f"{PEERS[peer]} cannot be used: {failure}\n{HINT.format(peer)}") from failure
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return found.group() if found else "unknown"


def find_peers(options):
    versions = {peer: find_mpi(peer, options.built) for peer in options.wanted if peer in PACKAGES}
    wanted = [peer for peer in options.wanted if peer not in PACKAGES]
    if wanted:
        options.peers, found = find_python_peers(options.peers, wanted, HINT.format(" or --without ".join(wanted)))
        versions.update(found)
    return versions


# --- sizes as text -------------------------------------------------------------------------------------------------


def show_size(size):
    unit = next((unit for unit in reversed(UNITS) if size % UNITS[unit] == 0), "")
    return f"{size // UNITS.get(unit, 1)} {unit}B"


def show_time(microseconds):
    for limit, divisor, unit in ((1e3, 1, "us"), (1e6, 1e3, "ms"), (float("inf"), 1e6, "s")):
        if microseconds < limit:
            return f"{microseconds / divisor:.3g} {unit}" if microseconds / divisor < 1000 else f"1000 {unit}"
    return "-"


def size(text):
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in UNITS else (text, "")
    value = int(number) * UNITS.get(unit, 1)
    if not 4 <= value <= 1 << 32 or value % 4:
        raise argparse.ArgumentTypeError(f"{text} is no multiple of 4 bytes from 4 to 4G")
    return value


def workers(text):
    value = int(text)
    if not 2 <= value <= 64:
        raise argparse.ArgumentTypeError(f"{text} is not from 2 to 64")
    return value


def list_of(kind):
    def read(text):
        return sorted({kind(part) for part in text.split(",")})

    read.__name__ = f"list of {kind.__name__}"
    return read
