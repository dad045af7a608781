"""Every kind of op is in one of the GPU plugin's tables, and in one only."""
import re

import house

TABLE = re.compile(r"^const struct ls_cuda_kind ls_cuda_\w+_kinds\[LS_OP_KIND_COUNT\] = \{\n(.*?)^\};", re.M | re.S)

names = ["LS_OP_" + kind for kind in re.findall(r"\bROW\((\w+),", house.read("src/device/op.h"))]
tables = [table for path in house.files("src/device/cuda") for table in TABLE.findall(house.read(path))]
rows = re.findall(r"\[(LS_OP_\w+)\] =", "".join(tables))
results = house.Results()
results.check("kinds and tables are found", [] if len(names) > 30 and len(tables) == 3 else [f"{len(names)}, {len(tables)}"])
results.check("every kind has a row", sorted(set(names) - set(rows)))
results.check("no kind has two", sorted({row for row in rows if rows.count(row) > 1}))
results.finish()
