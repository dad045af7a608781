"""Manual pages of the C API: one for each function, type and macro of the headers, of its declaration and the comment above.

usage: api.py --names HEADER...            prints the pages' file names
       api.py FOLDER VERSION HEADER...     writes them"""
import os
import re
import sys
import textwrap

DECLARED = re.compile(r"(?:LS_API|typedef|struct|enum|static inline|#define LS_[A-Z]\w*\(|#define ls_)")
WIDTH = 100


def joined(comment):
    """The text of a comment, without its marks."""
    lines = comment.strip().removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join(re.sub(r"^ ?\* ?", "", line).rstrip() if i else line.strip() for i, line in enumerate(lines)).strip()


def blocks(text):
    """The header as comments, declarations and blank lines, in their order."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        begin = at
        if lines[at].startswith("/*"):
            while "*/" not in lines[at]:
                at += 1
            yield "comment", "\n".join(lines[begin:at + 1])
        elif DECLARED.match(lines[at]):
            brace = "{" in re.sub(r"\(.*|/\*.*", "", lines[at]) and not re.search(r"}.*;", lines[at])
            define = lines[at].startswith("#")
            while (lines[at].endswith("\\") if define else not re.match(r"}", lines[at]) if brace else
                   not re.search(r";\s*(?:/\*.*\*/)?$", lines[at])):
                at += 1
            yield "declaration", "\n".join(lines[begin:at + 1])
        else:
            yield "other" if lines[at].strip() else "blank", lines[at]
        at += 1


def name_of(declaration):
    code = re.sub(r"/\*.*?\*/", "", declaration, flags=re.S)
    if code.startswith("#"):
        return re.match(r"#define (\w+)", code)[1]
    if "{" in code and not code.startswith("static"):
        return (re.search(r"}\s*(\w+)\s*;", code) or re.match(r"(?:struct|enum) (\w+)", code))[1]
    found = re.search(r"\b(ls_\w+)\(", code) or re.search(r"\b(ls_\w+);", code)
    return found[1] if found else None


class Above:
    """A comment and the declarations between it and the next one."""

    def __init__(self, block=""):
        self.block, self.comment, self.declared = block, joined(block), []

    @staticmethod
    def is_type(code):
        return code.startswith(("typedef", "struct", "enum"))

    def is_of(self, code):
        """A comment is of the declaration below it, and where that is a type of the first function, too."""
        return all(self.is_type(one) for one in self.declared) and not (self.declared and self.is_type(code))

    def text(self):
        return "\n".join([self.block, *self.declared]) if self.block else ""


class Page:
    """A declaration, the macros that fill it, and what is said of it."""

    def __init__(self, header, code, above):
        self.names, self.header, self.code = [name_of(code)], header, [code]
        own = above.is_of(code)
        self.comment, self.context = above.comment if own else "", "" if own or above.is_type(code) else above.text()

    def about(self):
        """A sentence."""
        behind = re.search(r"; /\* (.*?) \*/$", self.code[0])
        said = self.comment or (behind[1] if behind else "")
        said = re.sub(r"\s+", " ", re.split(r"(?<=[^.])\.(?:\s|$)|\n\n", said)[0])
        return textwrap.shorten(said, WIDTH, placeholder=" ...") or f"of <lockstep/{self.header}>"


def read(path):
    """What the whole header says of itself, and its pages."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    header, intro, pages, above, last = os.path.basename(path), None, [], Above(), None
    for kind, block in blocks(text):
        if kind == "comment":
            intro, above, last = intro or joined(block), Above("" if block.startswith("/* ----") else block), None
        elif kind == "blank":
            above, last = Above(), None
        elif kind == "declaration" and name_of(block):
            if last and name_of(block).isupper():
                last.names.append(name_of(block))
                last.code.append(block)
            else:
                last = Page(header, block, above)
                pages.append(last)
                above.declared.append(block)
    first = {}
    for page in pages:  # of a type that is declared twice the fuller one
        old = first.get(page.names[0])
        if not old or len("".join(page.code)) > len("".join(old.code)):
            first[page.names[0]] = page
    return header, intro, list(first.values())


def escape(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def verbatim(text):
    return [".nf", *map(escape, text.split("\n")), ".fi"]


def prose(text):
    """Paragraphs; what is indented stays as it is."""
    lines, kept = [], False
    for line in text.split("\n"):
        if line.strip() and line.startswith("    ") != kept:
            kept = not kept
            lines.append(".nf" if kept else ".fi")
        lines.append(escape(line) if line.strip() else "" if kept else ".PP")
    return [*lines, ".fi"] if kept else lines


def heading(name, version):
    return f".TH {name} 3 \"\" \"lockstep {version}\" \"Lockstep\""


def render(page, pages, version):
    used = sorted({name for name in re.findall(r"\bls_\w+", "\n".join(page.code)) if name in pages} - set(page.names))
    lines = [heading(page.names[0], version), ".SH NAME", f"{', '.join(page.names)} \\- {escape(page.about())}", ".SH SYNOPSIS",
             *verbatim(f"#include <lockstep/{page.header}>\n\n" + "\n".join(page.code))]
    if page.comment:
        lines += [".SH DESCRIPTION", *prose(page.comment)]
    if page.context:
        lines += [".SH DESCRIPTION", "It stands below these lines of the header:", ".PP", *verbatim(page.context)]
    lines += [".SH SEE ALSO", ", ".join(f"{name}(3)" for name in [index_of(page.header), *used])]
    return lines


def index_of(header):
    return "lockstep_" + header.removesuffix(".h")


def render_index(header, intro, pages, version):
    lines = [heading(index_of(header), version), ".SH NAME", f"{index_of(header)} \\- what <lockstep/{header}> declares", ".SH DESCRIPTION",
             *prose(intro), ".SH CONTENTS"]
    for page in pages:
        lines += [".TP", f"{page.names[0]}(3)", escape(page.about())]
    return lines


def files(version, headers):
    """{file name: lines of the page}; a further name is a page that leads to the first."""
    found, read_ones = {}, [read(path) for path in headers]
    pages = {name: page for _, _, some in read_ones for page in some for name in page.names}
    for header, intro, some in read_ones:
        found[index_of(header) + ".3"] = render_index(header, intro, some, version)
        for page in some:
            if pages[page.names[0]] is not page:
                continue  # a fuller one is in another header
            for name in page.names:
                found[f"{name}.3"] = render(page, pages, version) if name == page.names[0] else [f".so man3/{page.names[0]}.3"]
    return found


def main():
    if sys.argv[1] == "--names":
        print("\n".join(sorted(files("", sys.argv[2:]))))
        return
    for name, lines in files(sys.argv[2], sys.argv[3:]).items():
        with open(os.path.join(sys.argv[1], name), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
