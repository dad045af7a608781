"""What meson install lays down is enough to build on: headers, both libraries, pkg-config, the command.

usage: install.py BUILD CC [ARGUMENTS OF CC]"""
import glob
import os
import subprocess
import sys
import tempfile

import house

build, cc = os.path.abspath(sys.argv[1]), sys.argv[2:]
PROGRAM = os.path.join(house.ROOT, "examples", "collectives.c")


def pkg_config(folder, *options):
    [pc] = glob.glob(os.path.join(folder, "**", "lockstep.pc"), recursive=True)
    prefix = pc[:pc.index("/lib/")]
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pc))
    done = subprocess.run(["pkg-config", f"--define-variable=prefix={prefix}", *options, "lockstep"], env=environment,
                          text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout.split()


def try_program(folder, name, flags):
    """Builds the example outside the tree and runs it alone."""
    program = os.path.join(folder, name)
    status, said = house.run([*cc, "-o", program, PROGRAM, *pkg_config(folder, "--cflags"), *flags])
    if status:
        return [said]
    [library] = glob.glob(os.path.join(folder, "**", "liblockstep.so.0"), recursive=True)
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    status, said = house.run([program], env=dict(environment, LD_LIBRARY_PATH=os.path.dirname(library)))
    return [] if status == 0 and "rank 0 of 1" in said else [f"exit status {status}: {said}"]


results = house.Results()
with tempfile.TemporaryDirectory() as folder:
    status, said = house.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", folder])
    results.check("meson install", [said] if status else [])
    if not status:
        results.check("a program on the shared library", try_program(folder, "shared", pkg_config(folder, "--libs")))
        [archive] = glob.glob(os.path.join(folder, "**", "liblockstep.a"), recursive=True)
        static = [archive if flag == "-llockstep" else flag for flag in pkg_config(folder, "--libs", "--static")]
        results.check("a program on the static library", try_program(folder, "static", static))
        [command] = glob.glob(os.path.join(folder, "**", "bin", "lockstep"), recursive=True)
        if os.path.exists(os.path.join(build, "lockstep-cuda.so")):
            found = glob.glob(os.path.join(folder, "**", "lockstep-*", "lockstep-cuda.so"), recursive=True)
            results.check("the GPU plugin is there", [] if len(found) == 1 else found or ["it is not"])
        results.check("the installed command is there", [] if os.access(command, os.X_OK) else ["it is not"])
results.finish()
