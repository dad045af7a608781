"""Nothing in the sources says that work is missing. A sentence of a comment opens with its subject. A test case is
named by what it holds, and asserts success with assert_ok."""
import re

import house

MISSING = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/|//[^\n]*)', re.S)
CLAUSE = re.compile(r"(?:^|(?<=[.:;] ))"
                    r"(?:What|Who|Whom|Whose|Where|Whoever|Whatever|Wherever|Whichever|Whether|How) [a-z][^.]*")

results = house.Results()
sources = house.files("src", "include", "examples", "tests", endings=(".c", ".h", ".cu", ".cuh"))


def comments(text):
    """(line, words) of each comment."""
    for token in TOKEN.finditer(text):
        if token.group(1):
            words = re.sub(r"\s*\n\s*\*? ?", " ", token.group(1)).strip("/* ")
            yield text.count("\n", 0, token.start()) + 1, words


def check_clauses():
    results.check("a comment's sentence opens with its subject",
                  [f"{path}:{line}: {clause}" for path in sources for line, words in comments(house.read(path))
                   for clause in CLAUSE.findall(words)])


def check_cases():
    faults = []
    for path in house.files("tests", endings=(".c",)):
        text = house.read(path)
        faults += [f"{path}: {name}" for name in re.findall(r"START_TEST\((test_\w+)\)", text)]
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
check_cases()
results.finish()
