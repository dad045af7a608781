"""The tutorials say what happens: their programs compile as they stand there, and their commands run, in order.

usage: tutorials.py BUILD CC [ARGUMENTS OF CC]"""
import os
import re
import shlex
import shutil
import sys
import tempfile

import house

build, cc = os.path.abspath(sys.argv[1]), sys.argv[2:]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
# srun --ntasks N COMMAND...: the tasks of a step on this machine alone.
SRUN = """export SLURM_JOB_ID=$$ SLURM_STEP_NUM_TASKS=$2 SLURM_STEP_NODELIST=127.0.0.1 SLURM_STEP_TASKS_PER_NODE=$2
tasks=$2 task=1
shift 2
while [ "$task" -lt "$tasks" ]; do SLURM_PROCID=$task "$@" & task=$((task + 1)); done
SLURM_PROCID=0 "$@"
wait"""


def block(page, language):
    """The first block of a language of a page."""
    return next(text for name, text in BLOCK.findall(house.read(f"docs/tutorials/{page}.md")) if name == language)


# What must be said at the end of a page's commands, beside exit status 0.
SAID = {
    "own-data": r"accuracy 0\.[89]\d(?s:.*)\[0\] accuracy 0\.[89]\d",
    "fine-tune": r"accuracy",
    "gpt": r"Epoch 12/12\n.*val_perplexity: (?:[7-9]|1[0-3])\.(?s:.*)\nThe licensee (?s:.*)Epoch 3/3",
    "keras-script": r"Epoch 3/3\n.*val_accuracy: 0\.[6-9](?s:.*)\[0\] Epoch 3/3(?s:.*)\[0\] 16/16",
    "pictures": r"train: 480 examples(?s:.*)Epoch 6/6(?s:.*)120 examples(?s:.*)mean +0\.[6-9](?s:.*)"
                r"\nexample,file,class,name,probability\n0,new/000001.jpg,\d,0000\d,0\.\d+",
    "custom-loop": r"(the line .*)\n(?s:.*)\[0\] \1",
    "machines": r"127\.0\.0\.1 +\S+ (?s:.*)\[0\] Epoch 2/2(?s:.*)worker:1 +host1:2222  \(this task\)",
    "kubernetes": r"",
    "slurm": r"Epoch 2/2(?s:.*)(?=source)" + re.escape(block("slurm", "")),
}


PICTURES = {"pictures": ["curves.svg"]}  # of docs/images, which the page's commands make


def surroundings(folder):
    """What a page takes for granted: hosts, Slurm's srun, an installed library."""
    with open(os.path.join(folder, "hosts"), "w", encoding="utf-8") as file:
        file.write("127.0.0.1 slots=2\n")
    tools = os.path.join(folder, "tools")
    os.makedirs(tools)
    for name, text in (("srun", SRUN), ("cc", " ".join(map(shlex.quote, [shutil.which(word) or word for word in cc])) + ' "$@"')):
        with open(os.path.join(tools, name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(os.path.join(tools, name), 0o755)
    plain = {key: value for key, value in os.environ.items()
             if key != "TF_CONFIG" and not key.startswith(("LOCKSTEP_", "SLURM_"))}
    return dict(plain, PATH=os.pathsep.join([tools, build, plain["PATH"]]), LD_LIBRARY_PATH=build,
                PKG_CONFIG_PATH=os.path.join(build, "meson-uninstalled"))


def faults_of(page):
    commands = []
    with tempfile.TemporaryDirectory() as folder:
        environment = surroundings(folder)
        for language, text in BLOCK.findall(house.read(f"docs/tutorials/{page}.md")):
            named = re.match(r"/\* (\w+\.c) \*/", text)
            if named:
                with open(os.path.join(folder, named[1]), "w", encoding="utf-8") as file:
                    file.write(text)
            commands += [text] if language == "sh" else []
        script = f"cd {shlex.quote(folder)}\n" + "\n".join(commands)
        status, said = house.run(["timeout", "100", "bash", "-euo", "pipefail", "-c", script], env=environment)
        faults = [] if status == 0 and re.search(SAID[page], said) else [f"exit status {status}: {said[-3000:]}"]
        return faults or [f"{name} is not what the page's commands draw" for name in PICTURES.get(page, ()) if not same_picture(folder, name)]


def same_picture(folder, name):
    """The same words and parts, however long a curve's way is: other processors have other last digits."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        made = file.read()
    parts = [re.findall(r"<[a-z]+|[a-z_]{3,}", text) for text in (made, house.read(f"docs/images/{name}"))]
    return sorted(set(parts[0])) == sorted(set(parts[1]))


def strange_lines(page, path):
    """Lines of the page's manifest that the file to copy does not have."""
    there = set(map(str.strip, house.read(path).splitlines()))
    return [line for line in block(page, "yaml").splitlines() if line.strip() not in there]


results = house.Results()
for name in sorted(os.listdir(os.path.join(house.ROOT, "docs", "tutorials"))):
    results.check(f"docs/tutorials/{name}", faults_of(name[:-len(".md")]))
results.check("the manifest of kubernetes.md is that of deploy", strange_lines("kubernetes", "deploy/kubernetes/indexed-job.yaml"))
results.check("examples/pictures.sh is what pictures.md runs", [] if house.read("examples/pictures.sh").partition('"${1:-.}"\n\n')[2] ==
              BLOCK.findall(house.read("docs/tutorials/pictures.md"))[1][1] else ["its commands are not the page's second block"])
results.finish()
