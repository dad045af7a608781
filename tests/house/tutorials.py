"""The tutorials say what happens: their programs compile as they stand there, and their commands run, in order.

usage: tutorials.py BUILD CC [ARGUMENTS OF CC]"""
import json
import os
import re
import shlex
import shutil
import sys
import tempfile

import house

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from cluster import free_ports  # noqa: E402

build, cc = os.path.abspath(sys.argv[1]), sys.argv[2:]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
# What must be said at the end of a page's commands, beside exit status 0.
SAID = {
    "own-data": r"accuracy 0\.[89]\d(?s:.*)\[0\] accuracy 0\.[89]\d",
    "fine-tune": r"accuracy",
    "keras-script": r"Epoch 3/3\n.*val_accuracy: 0\.[6-9](?s:.*)\[0\] Epoch 3/3(?s:.*)\[0\] 16/16",
    "pictures": r"120 examples(?s:.*)mean +0\.[6-9](?s:.*)\nexample,file,class,name,probability\n0,pictures/00000/\d+.jpg,\d,0000\d,0\.\d+",
    "custom-loop": r"(the line .*)\n(?s:.*)\[0\] \1",
    "machines": r"worker:0 (?s:.*)Epoch 2/2",
    "kubernetes": r'"mnist-3.mnist:2222"\]}, "task": {"type": "worker", "index": 2}}',
    "slurm": r'\["node1:2222", "node1:2223", "node2:2222", "node2:2223"\]}, "task": {"type": "worker", "index": 3}}',
}


def surroundings(folder):
    """What a page takes for granted: hosts, a scheduler, an installed library."""
    with open(os.path.join(folder, "hosts"), "w", encoding="utf-8") as file:
        file.writelines(f"127.0.0.1:{port}\n" for port in free_ports(2))
    tools = os.path.join(folder, "tools")
    os.makedirs(tools)
    for name, text in (("scontrol", "printf 'node1\\nnode2\\n'"), ("cc", " ".join(map(shlex.quote, [shutil.which(word) or word for word in cc])) + ' "$@"')):
        with open(os.path.join(tools, name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(os.path.join(tools, name), 0o755)
    plain = {key: value for key, value in os.environ.items() if key != "TF_CONFIG" and not key.startswith("LOCKSTEP_")}
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
    return [] if status == 0 and re.search(SAID[page], said) else [f"exit status {status}: {said[-3000:]}"]


def configs_of(page, variables, count):
    """The script of a page, for each task: what it prints is a TF_CONFIG that names the task."""
    [script] = re.findall(r"<<'END'\n(.*?)^END", house.read(f"docs/tutorials/{page}.md"), re.M | re.S)
    faults = []
    for index in range(count):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(surroundings(folder), **{name: value % index if "%d" in value else value
                                                         for name, value in variables.items()})
            _, text = house.run(["sh", "-c", script], env=environment)
            status, said = house.run([os.path.join(build, "lockstep"), "check", "--json", "--tf-config", text], env=environment)
        report = json.loads(said)
        if status or report["id_in_cluster"] != index or report["num_workers"] != count:
            faults.append(f"task {index}: {text}{said}")
    return faults


results = house.Results()
for name in sorted(os.listdir(os.path.join(house.ROOT, "docs", "tutorials"))):
    results.check(f"docs/tutorials/{name}", faults_of(name[:-len(".md")]))
results.check("TF_CONFIG of the pods", configs_of("kubernetes", {"JOB_NAME": "a", "WORKERS": "3", "JOB_COMPLETION_INDEX": "%d"}, 3))
results.check("TF_CONFIG of srun's tasks", configs_of("slurm", {"SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2", "SLURM_PROCID": "%d",
                                                               "SLURM_JOB_NODELIST": "node[1-2]"}, 4))
results.finish()
