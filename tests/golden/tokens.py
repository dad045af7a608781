#!/usr/bin/env python3
"""Records what tiktoken makes of texts, in tests/golden/tokens/: a small vocabulary in GPT-2's two files (vocab.bpe,
encoder.json), and texts.txt with the ids of texts by it and by GPT-2's own.

    TIKTOKEN_CACHE_DIR=... python3 tests/golden/tokens.py

A line is "small" or "gpt2", the text's UTF-8 in hex ("-" for none), and its ids. Texts are drawn from all planes, of code
points that Python's Unicode has assigned. Needs tiktoken, which reads GPT-2's files from its cache or the network."""
import collections
import json
import pathlib
import random
import unicodedata

import tiktoken

FOLDER = pathlib.Path(__file__).resolve().parent / "tokens"
MERGES, SMALL, LARGE = 300, 160, 120
LEARNED = open("/usr/share/common-licenses/GPL-3", encoding="utf-8").read() + " naïve café 日本語 日本 한국어 👩‍👩‍👧 ١٢٣ \u3000\u3000 ½ " * 20
SPACES = list(" \n\t\r\x0b\x0c\x1c\x85\xa0") + [chr(c) for c in (0x1680, 0x180E, 0x2000, 0x2003, 0x200A, 0x200B, 0x2028, 0x2029, 0x202F,
                                                                  0x205F, 0x3000, 0xFEFF)]
PIECES = list("'sStTrevmldLD aA1,.!-_\0") + ["'re", "'ll", "'S", "\u2019s", "\u0301", "\u00e9", "e\u0301", "\U0001F469\u200D\U0001F467",
                                           "\U0001F3F3\uFE0F", "日本語", "한국어", "١٢", "Ⅷ", "½", "ß", "ǅ", "\u0e01\u0e31",
                                           "<|endoftext|>", "  ", "\n\n", " the", " software", "Licen", "\u202E"] + SPACES
ASSIGNED = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]

gpt2 = tiktoken.get_encoding("gpt2")
letters = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
letter = {b: chr(b) for b in letters}
for byte in range(256):
    letter.setdefault(byte, chr(256 + len(letter) - len(letters)))


def merged(word, pair):
    out = []
    for token in word:
        if out and (out[-1], token) == pair:  # a list is merged already
            out[-1] = [out[-1] + token]
        else:
            out.append(token)
    return tuple(token[0] if isinstance(token, list) else token for token in out)


def learn():
    """The merges of LEARNED, the most frequent first, and of those the least."""
    import regex
    words = collections.Counter(tuple(bytes([b]) for b in word.encode()) for word in regex.findall(gpt2._pat_str, LEARNED))
    merges = []
    while len(merges) < MERGES:
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += times
        pair = min(pairs, key=lambda one: (-pairs[one], one))
        merges.append(pair)
        words = collections.Counter({merged(word, pair): times for word, times in words.items()})
    return merges


def drawn(draw):
    return "".join(draw.choice(PIECES) if draw.random() < 0.75 else chr(draw.choice(ASSIGNED)) for _ in range(draw.randint(0, 24)))


def written(token):
    return "".join(letter[b] for b in token)


merges = learn()
ranks = {bytes([b]): i for i, b in enumerate([*letters, *(b for b in range(256) if b not in letters)])}
for left, right in merges:
    ranks[left + right] = len(ranks)
small = tiktoken.Encoding("small", pat_str=gpt2._pat_str, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": len(ranks)})
FOLDER.mkdir(exist_ok=True)
with open(FOLDER / "vocab.bpe", "w", encoding="utf-8") as file:
    file.write("#version: 0.2\n" + "".join(f"{written(left)} {written(right)}\n" for left, right in merges))
with open(FOLDER / "encoder.json", "w", encoding="utf-8") as file:
    json.dump({**{written(token): i for token, i in ranks.items()}, "<|endoftext|>": len(ranks)}, file)
    file.write("\n")
draw = random.Random(2019)
with open(FOLDER / "texts.txt", "w", encoding="ascii") as file:
    file.write(f"# tiktoken {tiktoken.__version__}, Unicode {unicodedata.unidata_version}; made by tokens.py\n")
    for name, encoding, count in (("small", small, SMALL), ("gpt2", gpt2, LARGE)):
        for text in ["", *(drawn(draw) for _ in range(count))]:
            file.write(" ".join([name, text.encode().hex() or "-", *map(str, encoding.encode_ordinary(text))]) + "\n")
