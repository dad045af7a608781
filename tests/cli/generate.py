"""lockstep generate: a model of a text that repeats goes on with it; one seed is one text; what cannot be is one error."""
import json
import os
import tempfile

from cli import contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
WORD = "abcdefgh"


def path_of(name):
    return os.path.join(FOLDER.name, name)


def train(name, *options):
    """A small model of a text that repeats eight letters: after each comes one other."""
    with open(path_of("text"), "w", encoding="ascii") as file:
        file.write(WORD * 200)
    done = lockstep("train", "--model", name, "--dataset", path_of("text"), "--context", "12", "--layers", "1", "--width", "16", "--heads", "2",
                    "--stride", "1", "--batch-size", "16", "--epochs", "3", "--optimizer", "adam", "--learning-rate", "0.02", "--no-validation",
                    "--verbose", "-1", "--save-each", path_of("weights.safetensors"), *options)
    equal(done.returncode, 0, done.stderr.decode())


def generate(*options, status=0):
    done = lockstep("generate", "--weights", path_of("weights.safetensors"), *options)
    equal(done.returncode, status, done.stderr.decode())
    return (done.stdout if status == 0 else done.stderr).decode()


def the_likeliest_text_goes_on_past_the_context():
    for name, tokens in (("gpt", "bytes"), ("gpt", "chars"), ("llama", "chars")):
        train(name, "--tokens", tokens)
        for options in ([], ["--no-cache"]):
            equal(generate("--prompt", "cd", "--count", "30", "--greedy", *options), "cd" + ("efghabcd" * 5)[:30] + "\n")


def one_seed_is_one_text():
    train("gpt", "--tokens", "chars")
    texts = [generate("--prompt", "a", "--count", "40", "--temperature", "5", "--seed", seed) for seed in "112"]
    equal(texts[0], texts[1])
    equal(texts[0] == texts[2], False)
    equal(generate("--prompt", "a", "--count", "40", "--temperature", "5", "--seed", "1", "--no-cache"), texts[0])
    likely = generate("--prompt", "a", "--count", "40", "--temperature", "5", "--top-k", "1")
    equal(likely, "a" + ("bcdefgha" * 5) + "\n")


def letters():
    """GPT-2's letters of the 256 bytes, as its bytes_to_unicode has them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def a_folder_of_hugging_face_has_its_tokens():
    """Each byte is a token of GPT-2's kind, and none is merged."""
    train("gpt2", "--tokens", "bytes")
    text = generate("--prompt", "cd", "--count", "30", "--greedy")
    folder = path_of("folder")
    equal(lockstep("convert", "--to", "huggingface", path_of("weights.safetensors"), folder).returncode, 0)
    contains(lockstep("generate", "--weights", folder, "--prompt", "cd").stderr.decode(), "/merges.txt' cannot be read")
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump({letter: byte for byte, letter in letters().items()}, file)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="ascii") as file:
        file.write("#version: 0.2\n")
    for options in (["--weights", folder], ["--model", folder], ["--model", folder, "--no-cache"], ["--weights", folder, "--gpt2", folder]):
        done = lockstep("generate", *options, "--prompt", "cd", "--count", "30", "--greedy")
        equal(done.stdout.decode(), text, done.stderr.decode())


def what_cannot_be_is_one_error():
    train("gpt", "--tokens", "chars")
    contains(generate("--prompt", "a!", status=2), "byte 1, 0x21: the vocabulary has no such character")
    contains(generate("--prompt", "", status=2), "--prompt is empty")
    contains(generate("--model", "llama", status=2), "was trained with 'gpt'")
    contains(generate("--top-p", "2", status=2), "option '--top-p' needs a number")
    done = lockstep("train", "--model", "gpt", "--dataset", path_of("text"))
    equal(done.returncode, 2)
    contains(done.stderr.decode(), "model 'gpt' predicts the next token: give --tokens and --context")
    done = lockstep("train", "--model", "mlp", "--dataset", "digits", "--limit", "64", "--epochs", "1", "--no-validation", "--verbose", "-1",
                    "--save-each", path_of("mlp.safetensors"))
    equal(done.returncode, 0, done.stderr.decode())
    done = lockstep("generate", "--weights", path_of("mlp.safetensors"))
    equal(done.returncode, 2, done.stderr.decode())
    contains(done.stderr.decode(), "does not say its tokens: it was not trained with --tokens")


main([the_likeliest_text_goes_on_past_the_context, one_seed_is_one_text, a_folder_of_hugging_face_has_its_tokens, what_cannot_be_is_one_error])
