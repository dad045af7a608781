"""Training on the GPU beside training on the CPU: the gradients of one step, the losses of some, and other precisions."""
import array
import ast
import struct
import tempfile
import zipfile
from pathlib import Path

from .machine import need

MOST = 20000  # elements of a variable that are compared
THREADS = (2, 3, 4)  # of the CPU's trainings


def train(machine, *more):
    sizes = machine.sizes
    return ["train", "--dataset", "shapes", "--image-size", sizes.image, "--limit", sizes.limit, "--no-validation", "--batch-size",
            sizes.batch, "--verbose", -1, "--json", *more]


# What a model is trained with: a learning rate at which 20 steps stay comparable. Where an activation has a kink, rounding
# moves elements over it, and the gradients of any two float32 programs differ by about 1 %.
MODELS = {"mlp": ("--learning-rate", 0.01), "lenet": ("--learning-rate", 0.01),
          "mobilenet_v2": ("--alpha", 0.35, "--symmetric", "--learning-rate", 1e-6),
          "resnet50": ("--learning-rate", 1e-6)}


def column(file, name):
    rows = [line.split(",") for line in file.read_text().splitlines()]
    return [float(row[rows[0].index(name)]) for row in rows[1:]]


def losses(machine, model, *runs):
    """Of some steps, for each of [(device, options...)]; they run at the same time."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i}.csv" for i in range(len(runs))]
        commands = [machine.lockstep(*train(machine, "--model", model, *MODELS[model], "--optimizer", "sgd", "--epochs",
                                            machine.sizes.steps, "--steps-per-epoch", 1, "--csv", file, *more))
                    for file, (_, *more) in zip(files, runs)]
        machine.run_all([(command, {**machine.own, "LOCKSTEP_DEVICES": device}) for command, (device, *_) in zip(commands, runs)])
        found = [column(file, "loss") for file in files]
    need(all(len(each) == machine.sizes.steps for each in found), f"{model}: {', '.join(str(len(each)) for each in found)} losses")
    return found


def apart(one, other):
    return max(abs(a - b) / max(1, abs(a)) for a, b in zip(one, other))


def judge_losses(model, cpus, gpu):
    """cpus: the same training by different numbers of threads. Rounding alone drives them apart, and so far apart the GPU
    may be too. The first loss is forward's alone, of equal variables."""
    first, whole = apart(cpus[0][:1], gpu[:1]), apart(cpus[0], gpu)
    between = max(apart(cpus[0], other) for other in cpus[1:])
    text = f"{model} {whole:.1e} (CPUs {between:.1e})"
    need(first <= 1e-4, f"{model}: the first loss is {first:.1e} from the CPU's: more than 1e-4")
    need(whole <= 4 * max(between, 1e-6), f"{text}: beyond 4 times what the CPU's are apart by their threads")
    return text


def check_losses(machine):
    texts = []
    for model in machine.sizes.models:
        *cpus, gpu = losses(machine, model, *(("cpu:0", "--threads-per-replica", threads) for threads in THREADS), ("gpu:0",))
        texts.append(judge_losses(model, cpus, gpu))
    return f"{machine.sizes.steps} steps, float32, against the CPU: {', '.join(texts)}"


def check_precision(machine):
    precisions = ("tf32", "mixed_bfloat16", "mixed_float16")
    full, *others = losses(machine, "lenet", ("gpu:0",), *(("gpu:0", "--precision", precision) for precision in precisions))
    texts = []
    for precision, found in zip(precisions, others):
        difference = apart(full, found)
        need(difference < 0.05, f"{precision}: losses differ by {difference:.3f} from float32's")
        texts.append(f"{precision} {difference:.1e}")
    return f"{machine.sizes.steps} steps of lenet against float32: " + ", ".join(texts)


def read_array(content):
    """A .npy of float32: some of its elements, evenly spread, by a step that is odd."""
    length, = struct.unpack_from("<H", content, 8)
    header = ast.literal_eval(content[10:10 + length].decode("latin1"))
    need(header["descr"] == "<f4", f"an array of {header['descr']}")
    values = array.array("f", content[10 + length:])
    return values[::len(values) // MOST | 1]


def first_update(machine, model, device, rate):
    """What the variables are after one step, by name."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights.npz"
        command = machine.lockstep(*train(machine, "--model", model, *MODELS[model], "--optimizer", "sgd", "--learning-rate", rate,
                                          "--epochs", 1, "--steps-per-epoch", 1, "--save-each", file))
        machine.run(command, LOCKSTEP_DEVICES=device)
        with zipfile.ZipFile(file) as found:
            return {name: read_array(found.read(name)) for name in found.namelist() if "moving" not in name and name != "about.npy"}


def product(a, b):
    return sum(map(float.__mul__, a, b))


def minus(a, b):
    return list(map(float.__sub__, a, b))


def check_gradients(machine):
    """By a step of rate 1: as a whole within 5 %, and along the CPU's gradient each variable's within 2 %."""
    texts = []
    for model in machine.sizes.models:
        before, cpu, gpu = (first_update(machine, model, *what) for what in (("cpu:0", 1e-12), ("cpu:0", 1), ("gpu:0", 1)))
        wanted = {name: minus(before[name], cpu[name]) for name in before}
        found = {name: minus(before[name], gpu[name]) for name in before}
        errors = {name: minus(wanted[name], found[name]) for name in before}
        whole, wrong = (sum(product(each, each) for each in of.values()) for of in (wanted, errors))
        need(whole > 0 and wrong <= 0.05**2 * whole, f"{model}: the gradient is {(wrong / max(whole, 1e-300))**0.5:.1%} from the CPU's")
        for name, step in wanted.items():
            squares = product(step, step)
            along = product(step, found[name]) / max(squares, 1e-300)
            need(squares < 1e-8 * whole or abs(along - 1) <= 0.02, f"{model}: {name} is {along:.3f} of the CPU's")
        texts.append(f"{model} {(wrong / whole)**0.5:.1e}")
    return "of one step, relative to the CPU's: " + ", ".join(texts)
