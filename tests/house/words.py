"""Nothing in the sources says that work is missing. A sentence of a comment opens with its subject, and has one relative
at most. A sentence of a document is short. A test case is named by what it holds, and asserts success with assert_ok."""
import re

import house

MISSING = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/|//[^\n]*)', re.S)
CLAUSE = re.compile(r"(?:^|(?<=[.:;] ))"
                    r"(?:What|Who|Whom|Whose|Where|Whoever|Whatever|Wherever|Whichever|Whether|How) [a-z][^.]*")

MOST_WORDS = 30  # of a sentence outside of tables and blocks of code
RELATIVE = re.compile(r"\b(?:who|whom|that of|those of)\b", re.I)
END = re.compile(r"(?:(?<=[.?!])|(?<=[.?!][)\"'*`])|(?<=[.?!]\*\*))(?<!\bal\.)(?<!e\.g\.)\s+")
ITEM = re.compile(r"^\s*(?:[-*] |\d\. )")
VERDICT = re.compile(r"(?:True|False): ")  # "Returns true if" has a verb
CODE = re.compile(r"^```.*?^```$", re.M | re.S)

results = house.Results()
sources = house.files("src", "include", "examples", "tests", endings=(".c", ".h", ".cu", ".cuh"))


def comments(text):
    """(line, words) of each comment."""
    for token in TOKEN.finditer(text):
        if token.group(1):
            words = re.sub(r"\s*\n\s*\*? ?", " ", token.group(1)).strip("/* ")
            yield text.count("\n", 0, token.start()) + 1, words


def paragraphs(text):
    """(line, words) of each paragraph and each item of a list, without tables, headings and blocks of code."""
    text = CODE.sub(lambda block: "\n" * block.group().count("\n"), text)
    first, held = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        ends = not line.strip() or line.startswith(("|", "#", "![")) or (line.startswith("    ") and not held)
        if held and (ends or ITEM.match(line)):
            yield first, " ".join(held)
            held = []
        if not ends:
            first = first if held else number
            held.append(ITEM.sub("", line, count=1).strip())


def count_words(sentence):
    """A piece of code is one word, and so is a number; a link has those that are shown."""
    shown = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", sentence))
    return sum(bool(re.search(r"\w", word)) for word in shown.split())


def long_sentences(text):
    return [(line, sentence) for line, words in paragraphs(text) for sentence in END.split(words) if count_words(sentence) > MOST_WORDS]


def crowded(text):
    """Sentences of comments with two relatives and more: each wants a noun."""
    return [(line, sentence) for line, words in comments(text) for sentence in END.split(words) if len(RELATIVE.findall(sentence)) > 1]


def check_sentences():
    documents = house.files("README.md", "CONTRIBUTING.md", "docs", "bench", "src", endings=(".md",))
    results.check(f"a sentence of a document has at most {MOST_WORDS} words",
                  [f"{path}:{line}: {count_words(sentence)} words: {sentence}" for path in documents
                   for line, sentence in long_sentences(house.read(path))])
    results.check("a sentence of a comment has at most one of who, whom, that of, those of",
                  [f"{path}:{line}: {sentence}" for path in house.files("src", "include", endings=(".c", ".h", ".hpp", ".cu", ".cuh"))
                   for line, sentence in crowded(house.read(path))])
    results.check("no sentence of a comment opens with True: or False:",
                  [f"{path}:{line}: {sentence}" for path in house.files("src", "include", endings=(".c", ".h", ".hpp", ".cu", ".cuh"))
                   for line, words in comments(house.read(path)) for sentence in END.split(words) if VERDICT.match(sentence)])
    words = " ".join(["word"] * MOST_WORDS)
    found = long_sentences(f"{words}.\n{words}\n\n- one {words}.\n\n    {words} {words}\n\n| {words} {words} |\n```\n{words} {words}\n```\n")
    results.check("long sentences are found", [] if [line for line, _ in found] == [4] else found)
    found = crowded("/* Who dials whom. Who ends. Those of whom\n * it hears, e.g. that of one. */")
    results.check("crowded sentences are found", [] if [sentence[:5] for _, sentence in found] == ["Who d", "Those"] else found)


def check_clauses():
    results.check("a comment's sentence opens with its subject",
                  [f"{path}:{line}: {clause}" for path in sources for line, words in comments(house.read(path))
                   for clause in CLAUSE.findall(words)])


def check_cases():
    faults = []
    for path in house.files("tests", endings=(".c",)):
        text = house.read(path)
        faults += [f"{path}: {name}" for name in re.findall(r"TEST\w*\((test_\w+)\)", text)]
        faults += [f"{path}: {call}" for call in re.findall(r"ck_assert_int_eq\(.*, LS_OK\);", text)
                   if "?" not in call]
    results.check("a test case is named by what it holds, and asserts success with assert_ok", faults)


everything = house.files("src", "include", "examples", "proto", endings=("",))
results.check("no word for missing work",
              [f"{path}:{number}: {line.strip()}" for path in everything
               for number, line in enumerate(house.read(path).splitlines(), 1) if MISSING.search(line)])
results.check("every source opens with a comment",
              [path for path in house.files("src", "include") if not house.read(path).startswith("/*")])
sample = list(comments('int a; /* What it does.\n * Who knows. A "/" is one. */ char *b = "/* What is it */";'))
results.check("clauses are found", [] if [len(CLAUSE.findall(words)) for _, words in sample] == [2] else sample)
check_clauses()
check_sentences()
check_cases()
results.finish()
