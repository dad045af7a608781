"""What scripts/gpu-check brings along to a machine with a GPU: each program is built here, under that name, and every
test that runs on the emulated GPU is among them.

usage: carried.py BUILD"""
import os
import sys
from pathlib import Path

import house

sys.path.insert(0, os.path.join(house.ROOT, "scripts"))
from gpu_check import carry, machine, tests  # noqa: E402
import builds  # noqa: E402


def built(build):
    """The files that the build makes, a library also by the name that programs look for."""
    targets = [target for target in builds.introspect(build, "targets") if target["build_by_default"]]
    names = [os.path.relpath(name, build) for target in targets for name in target["filename"]]
    return set(names) | {name.partition(".so.")[0] + ".so." + name.partition(".so.")[2].partition(".")[0]
                         for name in names if ".so." in name}


def emulated(build):
    """The programs that a test runs on the emulated GPU."""
    return {os.path.relpath(test["cmd"][0], build / "tests") for test in builds.introspect(build, "tests")
            if "LOCKSTEP_TEST_DEVICE" in test["env"]}


def missing(names, among, words):
    return [f"{name} {words}" for name in sorted(set(names) - set(among))]


place = Path(sys.argv[1]).resolve()
results = house.Results()
carried = [os.path.relpath(path, place) for path in carry.files(place)]
results.check("gpu-check carries what is built", missing(carried, built(place), "is not built"))
results.check("gpu-check carries each test of the emulated GPU",
              missing(emulated(place), tests.PROGRAMS, "is not among PROGRAMS of scripts/gpu_check/tests.py"))
chosen = {*tests.MEMCHECK, *tests.RACECHECK, *machine.EMULATED.subjects, *machine.ON_GPU.subjects}
results.check("gpu-check's subjects are tests of device", missing(chosen, tests.DEVICE, "is no subject of DEVICE"))
results.check("gpu-check's programs with rules of their own are carried",
              missing({*tests.FORKED, *tests.LEAST}, tests.PROGRAMS, "is not carried"))
results.finish()
