"""Documents speak of the tree as it is: the glossary's words and the page of each room name files that exist."""
import ast
import os
import re

import house

MOST_WORDS, MOST_LINES, WIDTH = 40, 20, 120
WORD = re.compile(r"- \*\*([^*]+)\*\*: .+ \(`(src/[\w./]+)`\)\.")
FILE = re.compile(r"`([\w./]+\.(?:c|h|cu|py|proto))`")
NAME = re.compile(r"\b(?:ls|LS)_\w+[a-zA-Z0-9]\b(?!_)")
FENCE = re.compile(r"^```")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CLAUSE = re.compile(r"(?:^|(?<=[.:;] ))(?:- )?(?:What|Who|Whom|Whose|Whoever|Whatever|Whichever) [a-z][^.?]*[.?]",
                    re.M)
THREAD = re.compile(r'^[^/*]*"(ls-[a-z-]*[a-z])(?:-%d)?"', re.M)


def exists(*path):
    return os.path.exists(os.path.join(house.ROOT, *path))


def rooms():
    """The table of includes.py."""
    for node in ast.parse(house.read("tests/house/includes.py")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "ROOMS":
            return ast.literal_eval(node.value)
    return {}


def glossary_faults(text):
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    rows = [(line, WORD.fullmatch(line)) for line in lines]
    words = [row.group(1) for _, row in rows if row]
    faults = [f"not '- **word**: meaning (`src/...`).': {line}" for line, row in rows if not row]
    faults += [f"{row.group(1)} names {row.group(2)}, which is not there" for _, row in rows
               if row and not exists(row.group(2))]
    if not words or len(words) > MOST_WORDS:
        faults.append(f"{len(words)} words; there may be 1 to {MOST_WORDS}")
    if words != sorted(set(words)):
        faults.append("the words are not in the order of the alphabet, or one stands twice")
    return faults


def page_faults(room, may_include):
    path = f"src/{room}/README.md"
    if not exists(path):
        return [f"{path} is not there"]
    text, faults = house.read(path), []
    if text.count("\n") > MOST_LINES:
        faults.append(f"{path} has {text.count(chr(10))} lines; there may be {MOST_LINES}")
    said = " ".join(text.split()).partition("It may include ")[2].partition(".")[0]
    wanted = ", ".join(f"`{name}`" for name in may_include) or "no room"
    if said != wanted:
        faults.append(f"{path}: It may include {said}. tests/house/includes.py: {wanted}")
    return faults


def unknown_files(path, known):
    """Names of files in code marks, written from any folder on, that no file has; NAME stands for any."""
    return [f"{path} names {name}, which is not there" for name in sorted(set(FILE.findall(house.read(path))))
            if not f"/{name.lstrip('./')} " in known and not re.search("NAME|SUBJECT", name)]


def unknown_names(path, known):
    return [f"{path} names {name}, which the sources do not have"
            for name in sorted(set(NAME.findall(house.read(path))) - known)]


def long_lines(path):
    """Lines of prose beyond the width; rows of tables and blocks of code may be longer."""
    faults, code = [], False
    for number, line in enumerate(house.read(path).splitlines(), 1):
        code ^= bool(FENCE.match(line))
        if len(line) > WIDTH and not code and not line.startswith(("|", "    ")):
            faults.append(f"{path}:{number} has {len(line)} columns")
    return faults


def unknown_threads():
    """Threads that the sources start and the table of docs/architecture.md lacks, and the other way round."""
    started = {name for path in house.files("src", endings=(".c",)) for name in THREAD.findall(house.read(path))}
    listed = set(re.findall(r"^\| `(ls-[a-z-]*[a-z])(?:-N)?` \|", house.read("docs/architecture.md"), re.M))
    return [f"{name}: in one of sources and docs/architecture.md only" for name in sorted(started ^ listed)]


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", house.read(path), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", text, re.M)}


def is_broken(path, name):
    file, _, anchor = name.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
    return not exists(target) or (anchor and target.endswith(".md") and anchor not in anchors(target))


def broken_links(path):
    """Links to files and headings that are not there."""
    return [f"{path} links {name}, which is not there" for name in LINK.findall(house.read(path)) if ":" not in name and is_broken(path, name)]


def clauses_first(path):
    """Sentences that open with a clause for a subject; questions may."""
    text = re.sub(r"^(```.*?^```|[|#].*?)$", "", house.read(path), flags=re.M | re.S)
    return [f"{path}: {sentence.group(0)}" for sentence in CLAUSE.finditer(text) if not sentence.group(0).endswith("?")]


results = house.Results()
wrong = glossary_faults("- **fold**: to add (`src/fold.c`).\n- tree")
results.check("a missing file and a line without a path are two faults", [] if len(wrong) == 2 else wrong)
results.check("the glossary", glossary_faults(house.read("docs/glossary.md")))
for name, below_it in rooms().items():
    results.check(f"the page of {name}", page_faults(name, below_it))
results.check("docs/architecture.md lists the threads", unknown_threads())
documents = house.files("README.md", "CONTRIBUTING.md", "docs", "src", "bench", endings=(".md",))
results.check(f"prose has at most {WIDTH} columns", [fault for path in documents for fault in long_lines(path)])
sources = house.files("src", "include", "examples", "tests", "proto", "bench",
                      endings=(".c", ".h", ".hpp", ".cu", ".cuh", ".py", ".proto"))
written = set(NAME.findall(" ".join(house.read(path) for path in sources)))
pages = [path for path in documents if not path.startswith("docs/tutorials/")]
tree = "/" + " /".join(sources) + " "
results.check("files exist", [fault for path in pages for fault in unknown_files(path, tree)])
results.check("functions, types and constants exist",
              [fault for path in pages for fault in unknown_names(path, written)])
results.check("links lead to files and headings", [fault for path in documents for fault in broken_links(path)])
results.check("no sentence opens with What or Who", [fault for path in documents for fault in clauses_first(path)])
results.finish()
