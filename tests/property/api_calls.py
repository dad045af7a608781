"""Writes a caller for every function that the public headers declare: it draws an argument of each parameter's type, of
which the missing-th pointer is NULL, and calls. A new function is in the test as soon as it is in a header, and a new
type does not compile until api.c can draw it.

A function with a format gets one text behind it. usage: api_calls.py OUTPUT DRAWERS HEADER...
(DRAWERS: api_draw.h; ls_NAME__ARGUMENT in it draws that argument alone)"""
import re
import sys

DECLARATION = re.compile(r"^LS_API\s+([^;{]*?)\b(ls_\w+)\s*\(([^;]*?)\)\s*;", re.M | re.S)


def parameters(text):
    text = " ".join(text.split()).split(", ...)")[0]
    if text == "void":
        return []
    found = []
    for one in text.split(","):
        kind, name, array = re.match(r"\s*(.*?)(\w+)(\[\d+\])?\s*$", one).groups()
        found.append((kind.strip() + (" *" if array else ""), name))
    return found


def drawer(kind):
    """const void *const * becomes const_void_p_const_p."""
    return "_".join(re.sub(r"\*", " p ", kind).split())


def caller(result, name, arguments, variadic, drawers):
    ends = name.endswith(("_free", "_close"))
    lines, pointer = [], 0
    for kind, argument in arguments:
        given = f"draw_{drawer(kind)}(draw)"
        if re.search(rf"(?:\b|draw_){name}__{argument}\b", drawers):
            given = f"draw_{name}__{argument}(draw)"
        if ends and pointer == 0 and "*" in kind:
            given = f"fresh_{drawer(kind)}(draw)"
        if "*" in kind:
            given = f"missing == {pointer} ? NULL : {given}"
            pointer += 1
        lines.append(f"    {kind}{'' if kind.endswith('*') else ' '}{argument} = {given};")
    more = ", draw_const_char_p(draw)" if variadic else ""
    call = f"{name}({', '.join(argument for _, argument in arguments)}{more})"
    status = f"    return {call};" if result == "ls_status" else f"    (void){call};\n    return LS_OK;"
    unused = [] if pointer else ["    (void)missing;"]
    unused += [] if arguments else ["    (void)draw;"]
    return "\n".join([f"static ls_status call_{name}(struct draw *draw, int missing) {{", *lines, *unused, status, "}"])


def row(result, name, arguments):
    names = [argument for kind, argument in arguments if "*" in kind]
    fails = "true" if result == "ls_status" else "false"
    return f'    {{"{name}", call_{name}, {fails}, {len(names)}, {{{", ".join(chr(34) + n + chr(34) for n in names) or "NULL"}}}}},'


def main():
    output, headers = sys.argv[1], sys.argv[3:]
    with open(sys.argv[2], encoding="utf-8") as file:
        drawers = file.read()
    found = []
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        found += [(result.strip(), name, parameters(text), "..." in text) for result, name, text in DECLARATION.findall(text)]
    with open(output, "w", encoding="utf-8") as file:
        for one in found:
            file.write(caller(*one, drawers) + "\n\n")
        file.write("static const struct function functions[] = {\n")
        file.write("\n".join(row(*one[:3]) for one in found) + "\n};\n")


main()
