"""Every field of the public option structs has a row in tests/property/fields_*.c, which shows that it changes something or
is refused; or a line in fields.txt, which names the test that does."""
import re

import house

VALUES = {"ls_layer", "ls_optimizer", "ls_rate_schedule", "ls_metric", "ls_map"}  # beside structs that begin with a size
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} \w+;", re.S)
ROW = re.compile(r"\b(?:CHANGE|FIELD)\((\w+), (\w+)[,)]")


def fields_of(body):
    for declaration in filter(None, map(str.strip, body.split(";"))):
        function = re.search(r"\(\*(\w+)\)\(", declaration)
        parts = [] if function else declaration.split(",")
        yield from [function.group(1)] if function else [re.search(r"(\w+)(\[\w+\])*$", part.strip()).group(1) for part in parts]


def is_option(name, body):
    return name in VALUES or re.match(r"\s*size_t size;", body)


headers = re.sub(r"/\*.*?\*/", "", "".join(map(house.read, house.files("include/lockstep"))), flags=re.S)
fields = [f"{name}.{field}" for name, body in STRUCT.findall(headers) if is_option(name, body)
          for field in fields_of(body) if field != "size"]
programs = [path for path in house.files("tests/property") if re.search(r"/fields_\w+\.c$", path)]
rows = {".".join(row) for path in programs for row in ROW.findall(house.read(path))}
elsewhere = dict(line.split() for line in house.read("tests/property/fields.txt").splitlines() if line and line[0] != "#")
results = house.Results()
results.check("structs and rows are found", [] if len(fields) > 150 and len(programs) > 3 else [f"{len(fields)}, {programs}"])
results.check("every field has a row", [f"{field}: no row in tests/property/fields_*.c shows that it changes something or is "
                                        "refused" for field in fields if field not in rows | set(elsewhere)])
results.check("every row has a field", sorted((rows | set(elsewhere)) - set(fields)))
results.check("tests elsewhere name the field", [f"{field}: {path}" for field, path in elsewhere.items()
                                                 if field.split(".")[1] not in house.read(path)])
results.finish()
