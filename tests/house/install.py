"""What meson install lays down is enough to build on and to run, wherever it was moved to: headers, both libraries, pkg-config,
CMake, the command, the plugin, manual pages, completion, documents. The .pc file of the build folder works too.

usage: install.py BUILD VERSION CC [ARGUMENTS OF CC]"""
import glob
import json
import os
import re
import shutil
import sys
import tempfile

import house

build, version, cc = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
PROGRAM = os.path.join(house.ROOT, "examples", "collectives.c")
PLAIN = {key: value for key, value in os.environ.items()
         if key not in ("TF_CONFIG", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH") and not key.startswith("LOCKSTEP_")}
# A driver that sees a GPU, so that the plugin is looked for.
DRIVER = "int cuInit(unsigned f) { return (int)(f & 0); } int cuDeviceGetCount(int *n) { *n = 1; return 0; }"


def find(folder, *names):
    found = [path for name in names for path in glob.glob(os.path.join(folder, "**", name), recursive=True)]
    return found[0] if len(found) == 1 else ""


def absent(folder, *names):
    return [f"{name} is not there" for name in names if not find(folder, name)]


def flags(pc, *options):
    """pkg-config's answer, where the .pc files of no other library can be found."""
    status, said = house.run(["pkg-config", *options, "lockstep"],
                             env=dict(PLAIN, PKG_CONFIG_PATH=os.path.dirname(pc), PKG_CONFIG_LIBDIR="/nowhere"))
    return said.split() if status == 0 else [said]


def compiled(folder, name, *arguments, library):
    """Builds the example outside the tree and runs it alone."""
    program = os.path.join(folder, name)
    status, said = house.run([*cc, "-o", program, PROGRAM, *arguments])
    if status:
        return [said]
    status, said = house.run([program], env=dict(PLAIN, LD_LIBRARY_PATH=library))
    return [] if status == 0 and "rank 0 of 1" in said else [f"exit status {status}: {said}"]


def moved_command(prefix):
    status, said = house.run([find(prefix, "bin/lockstep"), "info"], env=PLAIN)
    return [] if status == 0 and version in said else [f"exit status {status}: {said}"]


def moved_plugin(folder, prefix):
    """The plugin that is looked for first is the one below the library, which is replaced by a file that names itself."""
    driver, empty = os.path.join(folder, "libcuda.so.1"), os.path.join(folder, "empty.so")
    for path, text in ((driver, DRIVER), (empty, "")):
        status, said = house.run([*cc, "-x", "c", "-shared", "-fPIC", "-o", path, "-"], input=text)
        if status:
            return [said]
    place = os.path.join(os.path.dirname(find(prefix, "liblockstep.so.0")), f"lockstep-{version}", "lockstep-cuda.so")
    there = os.path.exists(place)
    if there != os.path.exists(os.path.join(build, "lockstep-cuda.so")):
        return [f"{place} is {'' if there else 'not '}there"]
    os.makedirs(os.path.dirname(place), exist_ok=True)
    shutil.copy(empty, place)
    _, said = house.run([find(prefix, "bin/lockstep"), "info"], env=dict(PLAIN, LD_LIBRARY_PATH=folder))
    used = [line.split("the plugin ")[1].split(" has no function")[0] for line in said.splitlines() if " has no function" in line]
    return [] if used and os.path.samefile(used[0], place) else [said]


def cmake_program(folder, prefix):
    if not shutil.which("cmake"):
        return []
    project = os.path.join(folder, "project")
    os.makedirs(project)
    shutil.copy(PROGRAM, project)
    with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write("cmake_minimum_required(VERSION 3.13)\nproject(try C)\nfind_package(lockstep 0.1 REQUIRED)\n"
                   "add_executable(try collectives.c)\ntarget_link_libraries(try PRIVATE lockstep::lockstep)\n")
    out = os.path.join(project, "out")
    for command in (["cmake", "-S", project, "-B", out, f"-DCMAKE_PREFIX_PATH={prefix}"], ["cmake", "--build", out]):
        status, said = house.run(command, env=PLAIN)
        if status:
            return [said]
    status, said = house.run([os.path.join(out, "try")], env=PLAIN)
    return [] if status == 0 and "rank 0 of 1" in said else [said]


def completes(prefix, line, *expected):
    script = (f"source {find(prefix, 'completions/lockstep')}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
              "_lockstep; echo \"${COMPREPLY[@]}\"")
    path = os.path.dirname(find(prefix, "bin/lockstep")) + ":" + PLAIN["PATH"]
    status, said = house.run(["bash", "-c", script], env=dict(PLAIN, PATH=path))
    return [] if status == 0 and sorted(said.split()) == sorted(expected) else [f"{line}: {said}"]


def page(prefix, name):
    found = find(prefix, name)
    return house.read(found).replace("\\-", "-") if found else ""


def parts(prefix):
    with open(find(prefix, "lockstep.spdx.json"), encoding="utf-8") as file:
        document = json.load(file)
    found = {one["name"]: one["versionInfo"] for one in document["packages"]}
    _, linked = house.run(["pkg-config", "--modversion", "libpng"])
    return [] if found["lockstep"] == version and found["libpng"] == linked.strip() and all(found.values()) else [str(found)]


def manual(prefix):
    _, names = house.run([find(prefix, "bin/lockstep"), "--list-commands"], env=PLAIN)
    faults = absent(prefix, "lockstep.1", *[f"lockstep-{name}.1" for name in names.split() if name != "help"])
    for name in names.split():
        _, options = house.run([find(prefix, "bin/lockstep"), name, "--list-options"], env=PLAIN)
        text = page(prefix, f"lockstep-{name}.1") if name != "help" else ""
        faults += [f"lockstep-{name}.1 has no {option}" for option in options.split() if name != "help" and option[1:] not in text]
    text = page(prefix, "lockstep-train.1").replace("-", "\\-")
    return faults + [f"lockstep-train.1 has no '{piece}'" for piece in (".SH SYNOPSIS", ".SH EXIT STATUS", "\\-\\-epochs N")
                     if piece not in text]


def words(text):
    return re.findall(r"\w+", text.replace("\\", ""))


def api_manual(prefix):
    """Of each function, the fields of each struct and each layer; a comment right above a function is its description."""
    faults = []
    for path in glob.glob(os.path.join(house.ROOT, "include", "lockstep", "*.h")):
        header = os.path.basename(path)
        if header == "tools.h":
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        functions = re.findall(r"^(?:(/\*(?:(?!\*/).)*\*/)\n)?LS_API ([^;]*?\b(ls_\w+)\([^;]*;)", text, re.M | re.S)
        structs = re.findall(r"^typedef struct \w+ {\n(.*?)^} (\w+);", text, re.M | re.S)
        layers = re.findall(r"^#define (ls_\w+)\(", text, re.M)
        faults += absent(prefix, f"lockstep_{header[:-2]}.3", *[name + ".3" for name in (*layers, *(name for _, name in structs))])
        for comment, prototype, name in functions:
            said = " ".join(words(page(prefix, name + ".3")))
            faults += [f"{name}.3 lacks '{piece}'" for piece in (prototype, re.sub(r"\n \* ?", "\n", comment.strip("/* ")))
                       if " ".join(words(piece)) not in said]
        faults += [f"{name}.3 has no {field}" for fields, name in structs
                   for field in re.findall(r"(\w+);", fields) if field not in words(page(prefix, name + ".3"))]
    _, said = house.run(["groff", "-man", "-ww", "-z", *glob.glob(os.path.join(prefix, "share", "man", "man3", "ls_model_*.3"))])
    return faults + said.splitlines()[:3]


results = house.Results()
with tempfile.TemporaryDirectory() as folder:
    status, said = house.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", os.path.join(folder, "first")])
    results.check("meson install", [said] if status else [])
    if status:
        results.finish()
    laid = os.path.dirname(os.path.dirname(find(folder, "bin/lockstep")))
    prefix = os.path.join(folder, "moved", "to")
    os.makedirs(os.path.dirname(prefix))
    os.rename(laid, prefix)
    pc, library = find(prefix, "lockstep.pc"), os.path.dirname(find(prefix, "liblockstep.so.0"))
    cflags = flags(pc, "--cflags")
    results.check("the command runs where it was moved to", moved_command(prefix))
    results.check("pkg-config names the own folder of headers alone",
                  [] if [os.path.realpath(flag[2:]) for flag in cflags] == [os.path.realpath(os.path.join(prefix, "include"))] else cflags)
    results.check("a program on the shared library",
                  compiled(folder, "shared", *cflags, *flags(pc, "--libs"), library=library))
    archive = find(prefix, "liblockstep.a")
    static = [archive if flag == "-llockstep" else flag for flag in flags(pc, "--libs", "--static")]
    results.check("a program on the static library", compiled(folder, "static", *cflags, *static, library="/nowhere"))
    uninstalled = os.path.join(build, "meson-uninstalled", "lockstep-uninstalled.pc")
    results.check("a program on the build folder's .pc file",
                  compiled(folder, "uninstalled", *flags(uninstalled, "--cflags", "--libs"), library=build))
    results.check("a program by CMake's find_package", cmake_program(folder, prefix))
    results.check("the GPU plugin is found below the library", moved_plugin(folder, prefix))
    results.check("each command has its manual page", manual(prefix))
    results.check("each function, struct and layer of the C API has its manual page", api_manual(prefix))
    results.check("completion for zsh and fish is there", absent(prefix, "zsh/vendor-completions/_lockstep",
                                                                 "fish/vendor_completions.d/lockstep.fish"))
    results.check("the SPDX document names the parts and their versions", parts(prefix))
    results.check("documents and examples are there", absent(prefix, "doc/lockstep/LICENSE", "doc/lockstep/README.md",
                                                              "doc/lockstep/docs/architecture.md", "doc/lockstep/examples/first.c", "doc/lockstep/deploy/README.md"))
    results.check("completion of commands", completes(prefix, "lockstep tr", "train"))
    results.check("completion of options", completes(prefix, "lockstep train --epo", "--epochs"))
    results.check("completion of values", [*completes(prefix, "lockstep train --model le", "lenet"),
                                           *completes(prefix, "lockstep evaluate --split = t", "train", "test"),
                                           *completes(prefix, "lockstep train --help opt", "optimizer")])
    results.check("completion behind lockstep run --", completes(prefix, "lockstep run -np 2 -- lockstep evaluate --batch-s", "--batch-size"))
    results.check("completion after help", completes(prefix, "lockstep help che", "check"))
results.finish()
