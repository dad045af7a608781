"""A model is a file: what train writes is a --model of train, evaluate, predict, generate, plan and convert, with the numbers of the model
that is named by its options; info tells its layers; what is no model is one error with the file's name."""
import json
import os
import struct
import tempfile

from cli import LOCKSTEP, contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
QUIET = ("--verbose", "-1", "--batch-size", "32", "--seed", "5")
LIMIT = ("--limit", "96")
MODELS = {  # options that name a model, and its data
    "mlp": (("--model", "mlp", "--hidden", "9,5"), ()),
    "embedding": (("--model", "embedding", "--embedding", "10000x3", "--hidden", "4"), ("--dataset", "words")),
    "lstm": (("--model", "lstm", "--embedding", "10000x3", "--hidden", "4"), ("--dataset", "words")),
    "gru": (("--model", "gru", "--hidden", "none"), ("--dataset", os.path.join(FOLDER.name, "text"), "--tokens", "chars", "--context", "7")),
    "gpt": (("--model", "gpt", "--layers", "1", "--heads", "2", "--width", "8", "--dropout", "0.1"),
            ("--dataset", os.path.join(FOLDER.name, "text"), "--tokens", "chars", "--context", "7")),
    "llama": (("--model", "llama", "--layers", "1", "--heads", "2", "--kv-heads", "1", "--width", "8"),
              ("--dataset", os.path.join(FOLDER.name, "text"), "--tokens", "bytes", "--context", "7")),
}


def path_of(name):
    return os.path.join(FOLDER.name, name)


def run(*words, workers=1, status=0):
    launcher = ("run", "-np", str(workers), "--no-prefix", "--", LOCKSTEP) if workers > 1 else ()
    done = lockstep(*launcher, *words)
    equal(done.returncode, status, done.stderr.decode())
    return (done.stdout if status == 0 else done.stderr).decode()


def last(text):
    return json.loads(text.strip().splitlines()[-1])


def train(file, *options, **more):
    out = run("train", *QUIET, *LIMIT, "--no-validation", "--json", "--epochs", "1", "--save-each", path_of(file), *options, **more)
    return last(out)["weights_sha256"]


def a_file_is_the_model_that_made_it():
    for name, (options, data) in MODELS.items():
        train(name + ".safetensors", *options, *data)
        file = path_of(name + ".safetensors")
        data_of = [*data, *(LIMIT if not data else ("--limit", "40", "--split", "train"))]
        ways = [("--model", file), (*options, "--weights", file)]
        if name == "mlp":
            run("convert", "--model", file, path_of("mlp.npz"))
            ways += [("--model", path_of("mlp.npz")), ("--model", file, "--weights", path_of("mlp.npz"))]
        found = {run("evaluate", "--json", *how, *data_of) for how in ways}
        found.add(run("evaluate", "--json", *ways[0], *data_of, workers=2))
        equal(len({json.dumps(last(text), sort_keys=True) for text in found}), 1, (name, found))
        outputs = []
        for how in (("--model", file), (*options, "--weights", file)):
            run("predict", *how, *data_of, "--raw", "--output", path_of("out.npy"))
            with open(path_of("out.npy"), "rb") as out:
                outputs.append(out.read())
        equal(outputs[0] == outputs[1], True, name)


def training_goes_on_from_a_file():
    for name in ("mlp", "gpt"):
        options, data = MODELS[name]
        file = path_of(name + ".safetensors")
        for workers in (1, 2):
            known = train("known.safetensors", *options, *data, "--weights", file, workers=workers)
            equal(train("again.safetensors", *data, "--model", file, workers=workers), known)
        found = [run("evaluate", "--json", how, path_of("again.safetensors"), "--limit", "40", "--split", "train", *data)
                 for how in ("--model", "--weights")]
        equal(found[0], found[1])
        contains(run("evaluate", *options, "--weights", path_of("again.safetensors"), *data, status=2), "says its layers: leave the option out")


def a_checkpoint_is_a_model():
    run("train", *QUIET, *LIMIT, "--no-validation", "--epochs", "1", "--hidden", "4", "--checkpoint", path_of("run"), "--checkpoint-retain")
    file = os.path.join(path_of("run"), sorted(os.listdir(path_of("run")))[-1])
    equal(run("evaluate", "--json", "--model", file, *LIMIT), run("evaluate", "--json", "--weights", path_of("run"), *LIMIT))


def a_language_model_is_a_file():
    texts = {run("generate", how, path_of("gpt.safetensors"), "--prompt", "ab", "--count", "9", "--seed", "3") for how in ("--model", "--weights")}
    equal(len(texts), 1)


def info_tells_a_model():
    text = run("info", path_of("gpt.safetensors"))
    for part in ("block_0_attention (Attention)", "Total params: ", "input: (7) of ids\n", "loss: sparse_categorical_crossentropy\n",
                 'classes: "a", "b"', "note: --model gpt "):
        contains(text, part)
    plan = last(run("plan", "-np", "2", "--model", path_of("mlp.safetensors"), "--json"))
    equal(plan["parameters"], 28 * 28 * 9 + 9 + 9 * 5 + 5 + 5 * 10 + 10)


def hugging_face_has_the_same_model():
    for name, first in (("gpt", "transformer.h.0.attn.c_attn.bias"), ("llama", "lm_head.weight")):
        options, data = MODELS[name]
        theirs, back = path_of("theirs.safetensors"), path_of("back.safetensors")
        contains(run("convert", "--to", "huggingface", "--model", path_of(name + ".safetensors"), theirs), "theirs.safetensors: ")
        run("convert", theirs, back)
        header, _ = header_of(theirs)
        equal(header["__metadata__"]["format"], "pt")
        equal(min(key for key in header if key != "__metadata__"), first)
        equal(header_of(back), header_of(path_of(name + ".safetensors")))
        data_of = (*data, "--limit", "40", "--split", "train")
        found = {run("evaluate", "--json", *how, *data_of) for how in ((*options, "--weights", theirs), ("--model", theirs), ("--weights", back))}
        equal(len(found), 1, found)
    contains(run("convert", "--to", "huggingface", path_of("mlp.safetensors"), theirs, status=2), "is of no gpt, gpt2 or llama")
    contains(run("convert", "--to", "huggingface", path_of("gpt.safetensors"), path_of("x.npz"), status=2), "are written as .safetensors")
    contains(run("convert", "--dataset", "digits", "--to", "huggingface", "--output", FOLDER.name, status=2), "--to huggingface is of weights")


def a_folder_of_hugging_face_is_a_model():
    for name, kind in (("gpt", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM")):
        _, data = MODELS[name]
        file, folder = path_of(name + ".safetensors"), path_of("folder-" + name)
        contains(run("convert", "--to", "huggingface", "--model", file, folder), f"{folder}: ")
        with open(os.path.join(folder, "config.json"), encoding="ascii") as config:
            equal(json.load(config)["architectures"], [kind])
        data_of = (*data, "--limit", "40", "--split", "train")
        found = {run("evaluate", "--json", how, what, *data_of) for how in ("--model", "--weights") for what in (file, folder)}
        equal(len(found), 1, found)
        contains(run("info", folder), "block_0_attention (Attention)")
        for workers in (1, 2):
            known = train("known.safetensors", *data, "--model", file, workers=workers)
            equal(train("again.safetensors", *data, "--model", folder, workers=workers), known)
        run("convert", folder, path_of("back.safetensors"))
        equal(header_of(path_of("back.safetensors"))[1] == header_of(file)[1], True)
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as config:
        config.write('{"model_type": "mamba"}')
    for command in (("train", *LIMIT, *data), ("evaluate",), ("predict", "--output", path_of("o.csv")), ("generate",)):
        contains(run(*command, "--model", folder, status=2), f"'{folder}/config.json': field 'model_type' is \"mamba\"")
    contains(run("convert", "--to", "huggingface", path_of("mlp.safetensors"), folder, status=2), "its layer 'token_embedding' is missing")


def header_of(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), file.read()


def write(path, header, data):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def what_is_no_model_is_one_error():
    header, data = header_of(path_of("mlp.safetensors"))
    about = json.loads(header["__metadata__"]["about"])
    about["layers"][1]["color"] = 3
    header["__metadata__"]["about"] = json.dumps(about)
    write(path_of("color.safetensors"), header, data)
    del header["__metadata__"]["about"]
    write(path_of("bare.safetensors"), header, data)
    with open(path_of("noise.safetensors"), "wb") as file:
        file.write(b"\x09" * 99)
    for command in (("train", *LIMIT), ("evaluate",), ("predict", "--output", path_of("o.csv")), ("generate",)):
        color, bare = path_of("color.safetensors"), path_of("bare.safetensors")
        if command[0] != "generate":
            contains(run(*command, "--model", color, status=2), f"'{color}': layer 1: field 'color' is unknown")
            contains(run(*command, "--model", bare, status=2), f"--model '{bare}' holds weights, and does not say its layers")
        contains(run(*command, "--model", path_of("noise.safetensors"), status=2), "noise.safetensors' is no file of weights")
        contains(run(*command, "--model", path_of("gone.safetensors"), status=2 if command[0] != "train" else 1), "gone.safetensors")
        contains(run(*command, "--model", color, "--hidden", "3", status=2), "--hidden")
    contains(run("info", path_of("color.safetensors"), status=2), "layer 1: field 'color' is unknown")
    contains(run("info", path_of("bare.safetensors")), "dense_1/bias (5)\n")
    contains(run("train", "--model", "nothing", status=2), "--model 'nothing' is none of mlp, embedding")
    contains(run("convert", "--model", path_of("mlp.safetensors"), status=2), "weights need two files")


with open(path_of("text"), "w", encoding="ascii") as text_file:
    text_file.write("abcdefgh" * 40)
main([a_file_is_the_model_that_made_it, training_goes_on_from_a_file, a_checkpoint_is_a_model, a_language_model_is_a_file, info_tells_a_model,
      hugging_face_has_the_same_model, a_folder_of_hugging_face_is_a_model,
      what_is_no_model_is_one_error])
