"""The locale of the program that uses the library changes nothing: functions of the C library that follow a locale stand
in src/base/plain.c alone. The command lockstep, which is a program, sets none."""
import re

import house

FOLLOWS = ("vprintf", "vfprintf", "vdprintf", "vsnprintf", "vsprintf", "strtod", "strtof", "strtold", "atof", "strcasecmp", "strncasecmp",
           "strcasestr", "strcoll", "strxfrm", "strfmon", "alphasort", "glob", "isalpha", "isalnum", "isspace", "isblank", "isprint",
           "isgraph", "ispunct", "iscntrl", "isupper", "islower", "tolower", "toupper", "setlocale", "localeconv")
SETS = ("setlocale", "newlocale", "uselocale") # in the command too
FORMATS = re.compile(r"\b(?:[fsd]|sn|as)?printf\s*\(|\b[fs]?scanf\s*\(")
FLOAT = re.compile(r"%[-+ #0']*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?[lL]?[aefgAEFG]")
WITHIN = re.compile(r"\b(?:vasprintf|cJSON_Parse\w*|cJSON_Print\w*)\s*\(") # where the thread has the locale C
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def argument_text(text, start):
    """A call's text, from behind its name and parenthesis to the closing one."""
    depth = 1
    for token in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|[()]', text[start:]):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if not depth:
            return text[start:start + token.end()]
    return text[start:]


def faults(path, text, is_library):
    """Each call that a locale changes."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda comment: "\n" * comment.group().count("\n"), text, flags=re.S) # lines stay
    found = []
    words = FOLLOWS if is_library else SETS
    for call in re.finditer(rf"\b({'|'.join(words + SETS)})\s*\(", text):
        found.append((call.start(), call.group(1)))
    for call in FORMATS.finditer(text) if is_library else ():
        if FLOAT.search("".join(LITERAL.findall(argument_text(text, call.end()))).replace("%%", "")):
            found.append((call.start(), "a float in " + call.group().rstrip("( ")))
    if is_library and WITHIN.search(text) and not re.search(r"\bLS_PLAIN;", text):
        found.append((WITHIN.search(text).start(), WITHIN.search(text).group().rstrip("( ") + " without LS_PLAIN"))
    return [f"{path}:{text.count(chr(10), 0, at) + 1}: {what}" for at, what in found]


results = house.Results()
sources = house.files("src", "include", endings=(".c", ".h", ".hpp", ".cu", ".cuh"))
results.check("what a locale changes stands in base/plain.c",
              [fault for path in sources if path != "src/base/plain.c"
               for fault in faults(path, house.read(path), not path.startswith(("src/cli/", "src/launch/")))])
sample = 'x = strtod(a, &b); /* strtod( */ printf("%d%% (%g)", 1, 2); printf("%d %%g", 1); cJSON_Parse(text);'
results.check("such calls are found", [] if len(faults("sample", sample, True)) == 3 else faults("sample", sample, True))
results.finish()
