"""Build folders of meson, by their paths below the root of the tree: what scripts make of them and ask them."""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def configure(folder, *options, **how):
    """Where it is not there."""
    if not os.path.exists(os.path.join(ROOT, folder, "build.ninja")):
        subprocess.run(["meson", "setup", folder, *options], cwd=ROOT, check=True, **how)


def build(folder, *targets, **how):
    subprocess.run(["ninja", "-C", folder, *targets], cwd=ROOT, check=True, **how)


def introspect(folder, what):
    """what: "tests", "targets"; as meson wrote it last."""
    with open(os.path.join(ROOT, folder, "meson-info", "intro-%s.json" % what), encoding="utf-8") as file:
        return json.load(file)


def path_of(target, folder):
    """Of what a target makes, in the build folder."""
    return os.path.relpath(target["filename"][0], os.path.realpath(os.path.join(ROOT, folder)))


def needed_by(tests, folder):
    """The paths of all that these tests need."""
    needed = {target for test in tests for target in test["depends"]}
    return [path_of(target, folder) for target in introspect(folder, "targets") if target["id"] in needed]
