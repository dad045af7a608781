"""lockstep tokens: texts come back as they were, files have llm.c's and nanoGPT's form, and each fault is one error that names the
file and the byte. LOCKSTEP_TEST_TEXT is a folder with GPT-2's vocab.bpe and encoder.json, and tinyshakespeare.txt."""
import hashlib
import json
import os
import random
import struct
import tempfile

from cli import contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "tokens")
GPT2 = ("--tokens", "gpt2", "--vocabulary", GOLDEN)
LICENSE = "/usr/share/common-licenses/GPL-3"
END = 556  # of the small vocabulary


def path_of(name):
    return os.path.join(FOLDER.name, name)


def write(name, content):
    with open(path_of(name), "wb") as file:
        file.write(content)
    return path_of(name)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def run(*arguments, status=0, **kwargs):
    done = lockstep("tokens", *arguments, **kwargs)
    equal(done.returncode, status, done.stderr.decode())
    return done.stdout


def refused(status, part, *arguments):
    done = lockstep("tokens", *arguments)
    equal((done.returncode, done.stdout), (status, b""), done.stderr.decode())
    contains(done.stderr.decode(), part)


def ids_of(*arguments):
    return [int(word) for word in run(*arguments).split()]


def texts_come_back_in_every_form():
    draw = random.Random(5)
    texts = {"license": read(LICENSE), "empty": b"", "bytes": draw.randbytes(3000), "unicode": "é 日本 \u3000 👩‍👩‍👧's\n\n".encode() * 9}
    for name, text in texts.items():
        source = write(name, text)
        for tokens in (("--tokens", "bytes"), ("--tokens", "chars"), GPT2):
            if "chars" in tokens and name in ("empty", "bytes"):
                continue
            known = ("--vocabulary", source) if "chars" in tokens else ()
            for target, form in (("a.bin", ()), ("b.bin", ("--format", "uint16")), ("c.bin", ("--format", "text")), ("d.txt", ())):
                said = run(source, *tokens, "--out", path_of(target), *form, "--json")
                told = json.loads(said)
                equal((told["file"], told["bytes"]), (source, len(text)))
                # a name that ends with .bin does not tell text
                back = run(path_of(target), *tokens, *known, *form, "--decode")
                equal(back, text, (name, tokens, target))
                again = json.loads(run(path_of(target), *tokens, *known, *form, "--decode", "--json", "--out", path_of("back")))
                equal((again["bytes"], again["tokens"], again["vocabulary"]), (len(text), told["tokens"], told["vocabulary"]))
                equal(read(path_of("back")), text)


def files_have_the_form_of_others():
    source = write("ab", b"ab\xff")
    said = run(source, "--tokens", "bytes", "--out", path_of("x.bin")).decode()
    equal(said, f"{source}: 3 bytes, 3 tokens, vocabulary 256\n")
    equal(read(path_of("x.bin")), struct.pack("<256i3H", 20240520, 1, 3, *[0] * 253, 97, 98, 255))
    run(source, "--tokens", "bytes", "--format", "uint16", "--out", path_of("x.bin"))
    equal(read(path_of("x.bin")), struct.pack("<3H", 97, 98, 255))
    equal(run(source, "--tokens", "bytes"), b"97 98 255\n")
    many = write("many", "".join(chr(c) for c in range(0x10000, 0x20001)).encode())
    run(many, "--tokens", "chars", "--out", path_of("x.bin"))
    equal(read(path_of("x.bin")), struct.pack("<256i65537I", 20240801, 7, 65537, *[0] * 253, *range(65537)))
    refused(2, "format uint16 holds ids below 65536, and the vocabulary has 65537", many, "--tokens", "chars", "--format", "uint16",
            "--out", path_of("y.bin"))
    assert not os.path.exists(path_of("y.bin"))


def files_and_standard_input_follow_each_other():
    first, second = write("first", b"ba"), write("second", b"cb")
    equal(ids_of(first, second, "--tokens", "chars"), [1, 0, 2, 1])
    equal(run(first, "-", second, "--tokens", "bytes", input=b"x", stdin=None), b"98 97 120 99 98\n")
    lines = run(first, second, "--tokens", "chars", "--json").decode().splitlines()
    equal([json.loads(line) for line in lines],
          [{"file": path, "bytes": 2, "tokens": 2, "vocabulary": 3} for path in (first, second)])
    equal(run("-", *GPT2, "--decode", input=run(LICENSE, *GPT2), stdin=None), read(LICENSE))


def ends_of_text_are_where_they_are_asked_for():
    source = write("blocks", b"one\n\n\ntwo<|endoftext|>\n\n")
    plain = ids_of(source, *GPT2)
    assert END not in plain
    equal(ids_of(source, *GPT2, "--special").count(END), 1)
    blocks = [b"one\n\n", b"\ntwo<|endoftext|>\n\n", b""]
    parts = [ids_of(write("block", block), *GPT2) for block in blocks]
    equal(ids_of(source, *GPT2, "--documents"), [END, *parts[0], END, *parts[1], END])
    equal(run(source, *GPT2, "--special", "--out", path_of("s.bin")).split()[3], b"%d" % (len(ids_of(source, *GPT2, "--special"))))
    equal(run(path_of("s.bin"), *GPT2, "--decode"), read(source))


def faults_are_named():
    text, tokens = write("text", b"abc"), ("--tokens", "bytes")
    refused(2, "no file is given", *tokens)
    refused(2, "it needs --tokens bytes, chars or gpt2", text)
    refused(2, "--tokens 'words'", text, "--tokens", "words")
    refused(2, "'-' is given 2 times", "-", "-", *tokens)
    refused(2, "tokens gpt2 need --vocabulary", text, "--tokens", "gpt2")
    refused(2, "leave --vocabulary out", text, *tokens, "--vocabulary", GOLDEN)
    refused(2, "--special is of texts that become tokens gpt2", text, *tokens, "--special")
    refused(2, "--documents is of texts that become tokens gpt2", text, *GPT2, "--documents", "--decode")
    refused(2, "chars are decoded with --vocabulary", text, "--tokens", "chars", "--decode")
    refused(2, "format 'llmc' needs --out FILE", text, *tokens, "--format", "llmc")
    refused(2, "/nowhere/vocab.bpe' cannot be read", text, "--tokens", "gpt2", "--vocabulary", "/nowhere")
    refused(2, "'/nowhere' cannot be read", "/nowhere", *tokens)
    refused(1, "'--out'", text, *tokens, "--out", "/nowhere/x.bin")
    refused(2, "byte 1, 0xff: it is not UTF-8", write("bad", b"a\xff"), "--tokens", "chars")
    refused(2, "byte 2, 0x63: the vocabulary has no such character", text, "--tokens", "chars", "--vocabulary", write("known", b"ab"))
    refused(2, "ids[1] is 256: the vocabulary has the ids 0 to 255", write("ids", b"1 256"), *tokens, "--decode")
    refused(1, "byte 2: the word there is no id", write("ids", b"1 x"), *tokens, "--decode")
    refused(1, "byte 2: the word there is no id", write("ids", b"1 99999999999"), *tokens, "--decode")
    refused(1, "ends at byte 3, within a token of 2 bytes", write("odd.bin", b"abc"), *tokens, "--decode")
    refused(1, "is no file of llm.c: its 3 bytes do not begin with 20240520", text, *tokens, "--decode", "--format", "llmc")
    head = struct.pack("<256i", 20240520, 1, 2, *[0] * 253)
    refused(1, "has 2 tokens at byte 8, which end at byte 1028, and the file at byte 1026", write("cut.bin", head + b"12"), *tokens, "--decode")
    refused(1, "has version 3 at byte 4, and 1 is read", write("v.bin", struct.pack("<256i", 20240520, 3, *[0] * 254)), *tokens, "--decode")
    folder = path_of("damaged")
    os.mkdir(folder)
    for name, damaged in (("vocab.bpe", "line 2: "), ("encoder.json", "it is no JSON at byte ")):
        for kept in ("vocab.bpe", "encoder.json"):
            content = read(os.path.join(GOLDEN, kept))
            write(os.path.join("damaged", kept), content[:17] if kept == name else content)
        refused(1, damaged, text, "--tokens", "gpt2", "--vocabulary", folder)


def gpt2_counts_tiny_shakespeare_as_others_do():
    folder = os.environ.get("LOCKSTEP_TEST_TEXT")
    if not folder:
        print("# without LOCKSTEP_TEST_TEXT: skipped")
        return
    text, tokens = os.path.join(folder, "tinyshakespeare.txt"), ("--tokens", "gpt2", "--vocabulary", folder)
    equal(json.loads(run(text, *tokens, "--json"))["tokens"], 338025)
    equal(json.loads(run(text, "--tokens", "chars", "--json")), {"file": text, "bytes": 1115394, "tokens": 1115394, "vocabulary": 65})
    equal(json.loads(run(text, *tokens, "--documents", "--json", "--out", path_of("x.bin")))["tokens"], 338028)
    equal(hashlib.sha256(read(path_of("x.bin"))[1024:]).hexdigest(), "a83aac7c65f0c35b03f1c0c756cc2ab866cccd3091f2d0749905d833548acaae")
    run(text, *tokens, "--out", path_of("y.bin"))
    equal(run(path_of("y.bin"), *tokens, "--decode"), read(text))


main([texts_come_back_in_every_form, files_have_the_form_of_others, files_and_standard_input_follow_each_other,
      ends_of_text_are_where_they_are_asked_for, faults_are_named, gpt2_counts_tiny_shakespeare_as_others_do])
