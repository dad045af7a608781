"""A limit of a wait is a setting or stands in base/deadlines.h, and each of those has its row in the table that lockstep
settings prints."""
import re

import house

TIME = re.compile(r"^#define\s+(\w*(?:TIMEOUT|DEADLINE|GRACE|LIMIT)\w*)\s+.*(?:LS_SECOND|LS_MILLISECOND|\d\.\d)", re.M)
HOME = "src/base/deadlines.h"
LAUNCHER = "src/launch/run_supervise.h"

results = house.Results()
results.check("limits of waits stand in base/deadlines.h",
              [f"{path}: {name}" for path in house.files("src") if path not in (HOME, LAUNCHER)
               for name in TIME.findall(house.read(path))])
table = house.read("src/base/deadlines.c")
names = TIME.findall(house.read(HOME))
results.check("the list of limits is read", [] if len(names) > 5 else names)
results.check("every limit has a row", [name for name in names if not re.search(rf"\b{name}\b", table)])
rows = house.read("src/cli/settings.c")
results.check("every limit of the launcher has a row",
              [name for name in re.findall(r"#define (LS_RUN_\w+)", house.read(LAUNCHER)) if name not in rows])
LIST = "tests/house/deadlines.txt"
UNTESTED = 0  # rows without a test of their own; never more
tests = dict(line.rsplit(": ", 1) for line in house.read(LIST).splitlines() if line and line[0] != "#")
waits = re.findall(r'^    \{"([^"]+)",', table, re.M) + re.findall(r'\{"((?:run|check): [^"]+)"', rows)
results.check("every row names the test that lets it expire", sorted(set(waits) ^ set(tests)))
results.check("those tests are there", [f"{name}: {test}" for name, test in tests.items() if test != "-" and
                                        not re.search(rf"\b{test.split()[1]}\b", house.read(test.split()[0]))])
results.check("all but a few have one", [name for name, test in tests.items() if test == "-"]
              if list(tests.values()).count("-") > UNTESTED else [])
results.finish()
