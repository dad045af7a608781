"""No file over 500 lines and no function over 60, with at most five exceptions, listed with their reason.

usage: sizes.py CTAGS"""
import sys

import house

FILE_LIMIT, FUNCTION_LIMIT, EXCEPTION_LIMIT = 500, 60, 5
FOLDERS = ["include", "src", "tests", "examples", "bench"]
EXCEPTIONS = "tests/house/exceptions.txt"


def exceptions():
    """{path or path:function: reason}"""
    rows = [line.split(None, 1) for line in house.read(EXCEPTIONS).splitlines()
            if line.strip() and not line.startswith("#")]
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def long_files():
    for path in house.files(*FOLDERS):
        lines = house.read(path).count("\n")
        if lines > FILE_LIMIT:
            yield path, lines


def functions(ctags):
    """(path, name, lines), brace to brace with the signature."""
    status, text = house.run([ctags, "-x", "--_xformat=%F\t%N\t%n\t%{end}", "--languages=C,C++", "--map-C=+.h",
                              "--map-C++=+.cu", "--map-C++=+.cuh", "--kinds-C=f", "--kinds-C++=f",
                              *house.files(*FOLDERS)])
    if status:
        raise SystemExit(f"Bail out! {ctags}: {text}")
    for line in text.splitlines():
        path, name, first, last = line.split("\t")
        if last.isdigit():
            yield path, name, int(last) - int(first) + 1


found = list(functions(sys.argv[1]))
too_long = dict(long_files())
too_long.update({f"{path}:{name}": lines for path, name, lines in found if lines > FUNCTION_LIMIT})
allowed = exceptions()
results = house.Results()
results.check("ctags finds functions with their ends", [] if len(found) > 100 else [f"only {len(found)}"])
results.check(f"no file over {FILE_LIMIT} lines, no function over {FUNCTION_LIMIT}",
              [f"{name}: {lines} lines" for name, lines in sorted(too_long.items()) if name not in allowed])
results.check(f"at most {EXCEPTION_LIMIT} exceptions, each with a reason",
              [f"{len(allowed)} exceptions"] * (len(allowed) > EXCEPTION_LIMIT)
              + [f"{name}: no reason given" for name, reason in allowed.items() if not reason])
results.check("every exception is needed", [name for name in allowed if name not in too_long])
results.finish()
