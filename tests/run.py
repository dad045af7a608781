#!/usr/bin/env python3
"""Builds everything with warnings as errors and runs the tests. Ends with a line "N passed, N failed" and that in its
exit status.

usage: scripts/test [--all | --full]
  (nothing)  gcc in build/, without the tests that take longest; of the programs a third. The output counts the others
  --all      gcc in build/ with all tests, then the format of the sources, and the tests again: clang, whose warnings
             are errors, with AddressSanitizer and UndefinedBehaviorSanitizer (build-asan), and gcc with ThreadSanitizer
             (build-tsan): what CI runs
  --full     all that with the long tables of tests, the proofs that stand, parsers in each build, and the emulated GPU
             under AddressSanitizer

A proof (tests/proofs.py) runs where the files that it guards have changed since it passed; tests/proved has that.
Nothing is shown twice. What only reads bytes runs under AddressSanitizer alone; the emulated GPU in build/ alone. Of
the other programs that run under a sanitizer, a third runs in build/ too; of most of those of ThreadSanitizer, half
under AddressSanitizer.
Under the sanitizers everything takes many times as long, so they leave out what cannot show them anything: the tests of
the house and of the protocol's model (suite house), which run none of this code; arithmetic, which is long, and has
one thread and little memory; the scripts that start the same code in more processes (scripts); a test once more with
a setting that a third one has, too (variant); and under ThreadSanitizer all that start processes (processes), whose
threads are those of strategy's and collective's own tests, all programs that cannot start a thread, and those that have
one only (alone). What stays takes fewer sizes (SANITIZED in tests/harness.h and tests/recovery/job.py).

A seed draws these, and some cases of a test that runs alike for each transport, layout, type or lost worker (drawn in
tests/end_to_end/cluster.py, some in tests/recovery/job.py; under sanitizers, tests/harness.h). It is printed;
LOCKSTEP_TEST_SEED=N repeats a run.

Most tests wait most of the time. So the builds of the stages that follow run beside them, with what they leave of the
processors (SCHED_IDLE): a test that wants one has it at once. The last lines say where the time went."""
import argparse
import fnmatch
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor, wait

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.chdir(ROOT)
sys.path.insert(0, "tests")
import builds  # noqa: E402
import pace  # noqa: E402
import proofs  # noqa: E402
import testlog  # noqa: E402

# What has no floats, and little more than bytes that it reads or processes that it starts.
PARSERS = """base/accept base/difference base/digest base/options base/read_file base/settings base/whole_file
  checkpoint/* cli/classes cli/diverged cli/early cli/environment cli/metrics cli/regression cli/run_hosts cli/run_output
  cli/run_workers cli/usage cli/watch cluster/certificate cluster/http2_frames cluster/message cluster/proof
  cluster/rate_limit data/cifar10 data/idx data/mnist data/numpy data/open data/reading data/tfrecord data/write
  fuzz/* observe/* property/tf_config resolver/* weights/*""".split()
# They take longest, and others of the same rooms stay.
LONG = """cli/bench cli/gpu_check cli/launchers cli/run_hosts cli/run_output cluster/refusal cluster/refusal_star
  collective/all_reduce collective/compression collective/conformance collective/hosts collective/kth
  collective/list collective/messages collective/scale end_to_end/async end_to_end/checkpoint end_to_end/deadlines
  end_to_end/delayed end_to_end/fault end_to_end/images end_to_end/learned end_to_end/logs end_to_end/network
  end_to_end/preemption end_to_end/scale end_to_end/security end_to_end/seeing end_to_end/server_stop
  end_to_end/sparse end_to_end/store end_to_end/train end_to_end/unlike_calls model/keras model/training
  protocol/model protocol/store python/package recovery/dialled recovery/elastic_back recovery/elastic_fewer
  recovery/elastic_guest recovery/elastic_heirs recovery/elastic_scaledback recovery/far recovery/fenced
  recovery/frozen recovery/inherited recovery/loops recovery/points recovery/several runtime/pending
  simulation/scenarios strategy/placement""".split()
# What the sanitizers would show nothing of, or take too long for.
UNSANITIZED, EMULATED = "house arithmetic scripts variant".split(), "*/*-gpu* cuda/* recovery/precision".split()
UNTHREADED = ["processes", "alone"]  # nothing for ThreadSanitizer
THREADED = "cluster/* collective/* gradients/* property/* runtime/* store/* strategy/* sync/* train/*".split()
LOG = "testlog-timed.json"  # named by the wrapper
SLOWEST = 20  # tests that the table of times has


# ---- which tests ----

def is_one_of(test, patterns):
    """A suite, or a name, which has a slash."""
    words = {test["name"], *(suite.split(":")[-1] for suite in test["suite"])}
    return any(fnmatch.fnmatch(word, pattern) for pattern in patterns for word in words)


def program_of(test, folder):
    """Its path in the build folder; None for scripts."""
    path = os.path.relpath(os.path.realpath(test["cmd"][0]), os.path.realpath(folder))
    return None if path.startswith("..") else path


def is_drawn(test, folder, parts):
    if not program_of(test, folder) or test["name"] in proofs.GUARDS:
        return True
    return zlib.crc32(" ".join((os.environ["LOCKSTEP_TEST_SEED"], folder, test["name"])).encode()) % parts == 0


def starts_threads(test, folder, other):
    """True for what is not known: scripts, and what the other folder has not built."""
    program = program_of(test, folder)
    if not program or not os.path.exists(os.path.join(other, program)):
        return True
    with open(os.path.join(other, program), "rb") as file:
        return b"\0pthread_create\0" in file.read()  # the name of a symbol that it wants


# ---- what came of them ----

def count(folder, entry, failures):
    """(passed, failed) of one program: its TAP lines, or itself where it prints none."""
    good = testlog.is_good(entry)
    lines = re.findall(r"^(ok|not ok)\b(.*)$", entry.get("stdout") or "", re.M)
    results = [word for word, rest in lines if not re.search(r"# *(SKIP|TODO)", rest, re.I)]
    failed = results.count("not ok")
    if entry["result"] == "SKIP":
        return 0, 0
    if not good:
        said = [f"not ok{rest}" for word, rest in lines if word == "not ok"] or [entry["result"]]
        failures += [f"{folder}: {entry['name']}: {line}" for line in said]
    return (results.count("ok"), failed or int(not good)) if results else (int(good), int(not good))


def processor_seconds(entry):
    """What scripts/timed prints last: of its shell and of the command, user and system. 0 of what was killed."""
    found = re.findall(r"^(\d+)m([\d.]+)s (\d+)m([\d.]+)s$", testlog.said(entry), re.M)
    user, more, system, rest = map(float, found[-1] if found else (0, 0, 0, 0))
    return 60 * (user + system) + more + rest


def linking(folder):
    """The share of linking in what was built last."""
    with open(os.path.join(folder, ".ninja_log"), encoding="utf-8") as log:
        rows = [line.split("\t") for line in log if not line.startswith("#")]
    spent = {output: int(end) - int(start) for start, end, _, output, _ in rows}
    links = sum(time for output, time in spent.items() if not re.search(r"\.(o|a|d|h|c|1)$", output))
    return 100 * links / max(1, sum(spent.values()))


def lower():
    """What others leave of the processors is enough."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        os.nice(19)


class Run:
    def __init__(self, everything, full):
        self.everything, self.full = everything, full
        self.passed = self.failed = self.left_out = 0
        self.pace = 1  # how much longer than on a quiet machine all takes
        self.failures, self.stages, self.tests = [], [], []  # tests: (processor seconds, wall seconds, name)
        self.ahead = ThreadPoolExecutor(1)  # builds of later stages, one after the other
        self.building = None

    def choose(self, folder, rest=False, without=(), parts=1, draws=None, threads_of=None):
        """The names of the tests, and the targets that they need. rest: also all targets that are no tests'; parts: of the
        programs for which draws is true, and that are no proofs, one in so many; threads_of: of programs only those that
        can start a thread, as their counterparts in that folder show."""
        tests = [test for test in builds.introspect(folder, "tests") if not is_one_of(test, without)]
        if parts > 1 and not self.full:
            tests = [test for test in tests if not draws(test) or is_drawn(test, folder, parts)]
        standing = [] if self.full else [test["name"] for test in tests if proofs.stands(folder, test["name"])]
        tests = [test for test in tests if test["name"] not in standing]
        if threads_of:
            tests = [test for test in tests if starts_threads(test, folder, threads_of)]
        if standing:
            print("proved before, of the same sources: " + ", ".join(standing), file=sys.stderr)
        others = [builds.path_of(target, folder) for target in builds.introspect(folder, "targets")
                  if rest and target["build_by_default"] and "/tests/" not in target["defined_in"]]
        return [test["name"] for test in tests], sorted({*builds.needed_by(tests, folder), *others})

    def build(self, folder, options, environment=None, log=None, **chosen):
        """Configures it where the options are new, and builds what the chosen tests need; their names. log: of a build
        beside tests."""
        how = {"env": {**os.environ, **(environment or {})}, "stdin": subprocess.DEVNULL}
        how.update({"stdout": log, "stderr": log, "preexec_fn": lower} if log else {})
        stamp = os.path.join(folder, ".options")
        if not os.path.exists(os.path.join(folder, "build.ninja")):
            builds.configure(folder, "-Dwerror=true", *options, **how)
        elif not os.path.exists(stamp) or open(stamp, encoding="utf-8").read() != " ".join(options):
            subprocess.run(["meson", "configure", folder, "-Dwerror=true", *options], check=True, **how)
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(" ".join(options))
        names, targets = self.choose(folder, **chosen)
        begun = time.monotonic()
        self.building = subprocess.Popen(["ninja", "-C", folder, *targets], **how)
        _, status, used = os.wait4(self.building.pid, 0)
        self.building.returncode = os.waitstatus_to_exitcode(status)
        self.stages.append(("build", folder, time.monotonic() - begun, used.ru_utime + used.ru_stime))
        if status:
            raise subprocess.CalledProcessError(self.building.returncode, "ninja -C " + folder)
        return names

    def sanitizer(self, folder, options, log, without=(), **more):
        """Quickly compiled, with all that reports name; of the GPU plugin, what the emulation takes."""
        without = [*without, *UNSANITIZED, *(() if self.full else EMULATED)]
        options = ["-Dcuda=disabled", "-Ddebug=true", "-Doptimization=1", "-Db_lundef=false", *options]
        return self.build(folder, options, log=log, without=without, **more)

    def address_build(self, log):
        """clang has no __SANITIZE_ADDRESS__ of its own, and at -O1 turns no loop into vectors. Its runtime is quickly
        linked as a shared library."""
        runtime = subprocess.check_output(["clang", "-print-runtime-dir"], text=True).strip()
        options = ["-Db_sanitize=address,undefined",
                   "-Dc_args=-g1 -Wno-pass-failed -D__SANITIZE_ADDRESS__ -fno-sanitize-recover=all",
                   "-Dc_link_args=-shared-libasan -Wl,-rpath," + runtime]
        return self.sanitizer("build-asan", options, log, environment={"CC": "clang"}, parts=2,
                              draws=lambda test: is_one_of(test, THREADED) and not is_one_of(test, PARSERS + UNTHREADED))

    def thread_build(self, log):
        """At -O1 gcc sees less, and warns of what it guesses."""
        without = [*UNTHREADED, *(() if self.full else PARSERS)]
        options = ["-Dwerror=false", "-Dc_args=-g1", "-Db_sanitize=thread"]
        return self.sanitizer("build-tsan", options, log, without, threads_of="build-asan")

    def begin(self, build):
        log = tempfile.TemporaryFile("w+", errors="replace")
        return self.ahead.submit(build, log), log

    def built(self, build, log):
        """What it said; the names of its tests."""
        wait([build])
        log.seek(0)
        print(log.read(), flush=True)
        return build.result()

    def test(self, folder, names, times, **environment):
        """Runs the tests, with so many times their limits, and counts every result."""
        begun = time.monotonic()
        at_once = "--num-processes", "6"  # many only wait
        entries = testlog.run(folder, names, times * self.pace, "--print-errorlogs", *at_once,
                              "--wrapper", os.path.join(ROOT, "scripts", "timed"), log=LOG, **environment)
        counts = [count(folder, entry, self.failures) for entry in entries] or [(0, 1)]  # no log: the tests did not run
        self.passed += sum(passed for passed, _ in counts)
        self.failed += sum(failed for _, failed in counts)
        tests = [(processor_seconds(entry), entry["duration"], f"{folder} {testlog.name_of(entry)}")
                 for entry in entries]
        self.stages.append(("tests", folder, time.monotonic() - begun, sum(test[0] for test in tests), len(tests)))
        self.tests += tests
        proofs.write(folder, entries)

    def gcc(self):
        """Begins the other builds."""
        options, without = [], LONG if not self.everything else () if self.full else PARSERS
        if not os.path.isdir("build"):
            options = ["-Dgpu_targets=80"]  # each GPU more takes as long again
            # Where there is no driver nothing runs the plugin, and its sources have been compiled
            driver = b"libcuda.so.1" in subprocess.check_output(["/sbin/ldconfig", "-p"])
            if not driver and proofs.stands("build", "house/plugin"):
                options = ["-Dcuda=disabled"]
        try:
            names = self.build("build", options, rest=True, without=without, parts=3,
                               draws=lambda test: not is_one_of(test, UNSANITIZED + EMULATED))
        finally:
            if self.everything:
                self.builds = self.begin(self.address_build), self.begin(self.thread_build)
        # What a fresh array holds is shown by the sanitizer's own fill. Meson's fills whatever size, and touches all
        own = {"MALLOC_PERTURB_": "0"} if self.everything and not self.full else {}
        self.test("build", names, 1, **own)
        self.left_out = 0 if self.everything else len(builds.introspect("build", "tests")) - len(names)

    def address(self):
        """The first failing check ends its test; leaks inside gRPC are not ours."""
        self.test("build-asan", self.built(*self.builds[0]), 4, UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
                  ASAN_OPTIONS="detect_stack_use_after_return=1:max_malloc_fill_size=1048576",
                  LSAN_OPTIONS="suppressions=%s/tests/lsan.supp:print_suppressions=0" % ROOT)

    def thread(self):
        self.test("build-tsan", self.built(*self.builds[1]), 6,
                  TSAN_OPTIONS="suppressions=%s/tests/tsan.supp:halt_on_error=1:second_deadlock_stack=1" % ROOT)

    def formatted(self):
        subprocess.run(["scripts/format", "--check"], check=True)
        self.passed += 1

    def stage(self, title, run):
        """One that cannot be built counts as one failure."""
        print("\n== " + title, flush=True)
        try:
            run()
        except Exception as error:  # whatever it is, the other stages run and the count comes
            print(error, file=sys.stderr, flush=True)
            self.failed += 1
            self.failures.append("%s: not done" % title)

    def print_times(self):
        print("\nwhat                 wall s   processor s")
        for what, folder, wall, used, *programs in self.stages:
            more = f"{programs[0]} programs" if programs else f"linking {linking(folder):.0f} % of its commands' time"
            print(f"{what:6} {folder:13} {wall:7.0f} {used:13.0f}  {more}")
        print("\nprocessor s   wall s  test")
        for used, wall, name in sorted(self.tests, reverse=True)[:SLOWEST]:
            print("%11.1f %8.1f  %s" % (used, wall, name))

    def end(self):
        """Of what is still built for stages that do not come."""
        self.ahead.shutdown(wait=False, cancel_futures=True)
        if self.building and self.building.returncode is None:
            self.building.terminate()


def stop(number, frame):
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true")
    which.add_argument("--full", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    run = Run(options.all or options.full, options.full)
    if options.full:
        os.environ["LOCKSTEP_TEST_FULL"] = "1"
        os.environ.pop("LOCKSTEP_TEST_SEED", None)
    else:
        os.environ.setdefault("LOCKSTEP_TEST_SEED", str(random.randrange(32768)))
        print("LOCKSTEP_TEST_SEED=" + os.environ["LOCKSTEP_TEST_SEED"], flush=True)
    # Debian's python3, whose modules scripts/setup installs, before one of another kind
    os.environ["PATH"] = "/usr/bin:" + os.environ["PATH"]
    os.environ["CC_LD"] = "gold"  # binutils' faster one: a hundred programs are linked, four times
    os.environ["OMP_WAIT_POLICY"] = "passive"  # oneDNN's threads sleep at once: other tests want the processors
    run.pace = pace.measure()
    os.environ.update(pace.settings(run.pace))
    print("limits of the tests: %.1f times those of a quiet machine" % run.pace, flush=True)
    stages = {"gcc": run.gcc, "format": run.formatted,
              "clang, AddressSanitizer and UndefinedBehaviorSanitizer": run.address, "ThreadSanitizer": run.thread}
    try:
        for title in stages if run.everything else ["gcc"]:
            run.stage(title, stages[title])
    finally:
        run.end()
    run.print_times()
    print()
    if run.left_out:
        print(f"left out: {run.left_out} test programs: long ones, which scripts/test --all runs, and those that the "
              "seed did not draw")
    print("\n".join([*run.failures, f"{run.passed} passed, {run.failed} failed"]))
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
