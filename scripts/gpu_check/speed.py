"""The benchmark beside torch, where the python has that."""
import os

from run import say

from . import ROOT
from .machine import has_torch, need


def check_speed(machine):
    """The table is printed whatever becomes of it. Torch keeps its own libraries."""
    own = {**os.environ, "LOCKSTEP_PLUGIN": machine.own.get("LOCKSTEP_PLUGIN", "")}
    command = [machine.python, ROOT / "bench/gpu", "--lockstep", machine.place / "lockstep", "--library-path",
               machine.own["LD_LIBRARY_PATH"], "--peers", machine.python, "--rounds", 1, "--within", f"{0.97 * machine.left():.0f}",
               *machine.sizes.speed]
    if not has_torch(machine):
        say(f"  {machine.python} has no torch: Lockstep is measured alone")
        command.append("--no-peers")
    code, text, last = machine.run_to_end(command, own, machine.left())
    print(text, flush=True)
    need(code == 0, f"bench/gpu: {'it did not end in its time' if code is None else f'exit status {code}'}:\n{last}")
    need("of memory" in text, f"bench/gpu: no table of ops:\n{last}")
    table = text.partition("images/s:")[2].partition("MB on the GPU:")[0]
    rows = [line.split() for line in table.splitlines() if line.startswith(("mobilenet_v2", "resnet50"))]
    return "; ".join(f"{row[0]} {row[1]}: {row[3]} images/s, {row[6]} of eager, {row[7]} of compiled" for row in rows)
