"""A manual page from what a command says of itself.

usage: man.py OUTPUT VERSION LOCKSTEP [COMMAND]"""
import os
import re
import subprocess
import sys

output, version, lockstep = sys.argv[1:4]
command = sys.argv[4:]
name = "-".join(["lockstep", *command])
environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "TF_CONFIG")}
text = subprocess.run([lockstep, *command, "--help", *(["all"] if command else [])], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
title, _, rest = text.partition("\n")
said = re.sub(r"^lockstep[^:]*: ", "", title)


def escape(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def section(paragraph):
    """A heading of the help, and what stands below it, as it is laid out there."""
    head, _, body = paragraph.partition("\n")
    found = re.match(r"([a-z][a-z ]*):(?: (.*))?$", head)
    if not found:
        heading, body = "DESCRIPTION", paragraph
    else:
        heading = {"usage": "SYNOPSIS"}.get(found[1], found[1].upper())
        body = "\n".join(filter(None, [found[2], body]))
    return heading, body


lines = [f".TH {escape(name.upper())} 1 \"\" \"lockstep {version}\" \"Lockstep\"", ".SH NAME", f"{escape(name)} \\- {escape(said)}"]
last = None
for paragraph in re.split(r"\n\n+", rest.strip("\n")):
    heading, body = section(paragraph)
    lines += [f".SH {heading}"] if heading != last else [".PP"]
    lines += [".nf", *map(escape, body.splitlines()), ".fi"]
    last = heading
if command:
    lines += [".SH SEE ALSO", "lockstep(1)"]
with open(output, "w", encoding="utf-8") as file:
    file.write("\n".join(lines) + "\n")
