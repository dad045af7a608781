"""GPT-2 124M in llm.c's program for processors: tokens/s by the clock and by processor time, and peak memory, as one
JSON line. llm.c fixes the batch (4) and the context (64), validates and writes text now and then; its own times of steps
are without those. Weights and tokens are drawn. Two steps before are not timed.

usage: llmc_gpt.py PROGRAM THREADS STEPS, PROGRAM such as llm.c/train_gpt2, which `make train_gpt2` builds
"""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

WEIGHTS, TOKENS = (20240326, 3), (20240520, 1)  # the magic numbers and versions of both kinds of file
VOCABULARY, PADDED, LAYERS, HEADS, WIDTH, POSITIONS = 50257, 50304, 12, 12, 768, 1024
BATCH, CONTEXT, WARM_UP, MOST_STEPS = 4, 64, 2, 41
TICKS = os.sysconf("SC_CLK_TCK")


def write_header(file, *words):
    file.write(array.array("i", words + (0,) * (256 - len(words))).tobytes())


def write_weights(path, draw):
    block = 12 * WIDTH * WIDTH + 13 * WIDTH
    count = (PADDED + POSITIONS) * WIDTH + LAYERS * block + 2 * WIDTH
    values = array.array("f", (draw.gauss(0, 0.02) for _ in range(1 << 16))).tobytes()
    with open(path, "wb") as file:
        write_header(file, *WEIGHTS, POSITIONS, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED)
        for begin in range(0, 4 * count, len(values)):
            file.write(values[:4 * count - begin])


def write_tokens(path, draw):
    count = 8 * BATCH * CONTEXT + 1
    with open(path, "wb") as file:
        write_header(file, *TOKENS, count)
        file.write(array.array("H", (draw.randrange(VOCABULARY) for _ in range(count))).tobytes())


def fill(folder):
    draw, data = random.Random(1), folder / "dev/data/tinyshakespeare"
    data.mkdir(parents=True)
    write_weights(folder / "gpt2_124M.bin", draw)
    for part in "train", "val":
        write_tokens(data / f"tiny_shakespeare_{part}.bin", draw)


def peak_megabytes(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))[1]) // 1024


def share_of_processor(pid):
    """Processor seconds a second of its life: the steps' share is not told."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / TICKS
    lived = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0]) - int(fields[19]) / TICKS
    return seconds / lived


def measure(program, threads, steps, folder):
    command = ["stdbuf", "-oL", program]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, bufsize=1,
                          env=dict(os.environ, OMP_NUM_THREADS=str(threads))) as child:
        times = []
        for line in child.stdout:
            found = re.match(r"step \d+: .*took ([\d.]+) ms", line)
            times += [float(found[1]) / 1000] if found else []
            if len(times) == WARM_UP + steps:
                seconds, share, peak = sum(times[WARM_UP:]), share_of_processor(child.pid), peak_megabytes(child.pid)
                child.kill()
                break
        else:
            sys.exit(f"{program} ended after {len(times)} of {WARM_UP + steps} steps")
    rate = steps * BATCH * CONTEXT / seconds
    print(json.dumps({"tokens_per_second": rate, "tokens_per_processor_second": rate / share, "peak_megabytes": peak}))


def main():
    program, threads, steps = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        measure(program, threads, min(steps, MOST_STEPS - WARM_UP), folder)


if __name__ == "__main__":
    main()
