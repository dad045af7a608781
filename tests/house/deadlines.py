"""A limit of a wait is a setting or stands in base/deadlines.h, and each of those has its row in the table that lockstep
settings prints."""
import re

import house

TIME = re.compile(r"^#define\s+(\w*(?:TIMEOUT|DEADLINE|GRACE|LIMIT)\w*)\s+.*(?:LS_SECOND|LS_MILLISECOND|\d\.\d)", re.M)
HOME = "src/base/deadlines.h"
LAUNCHER = "src/cli/run_supervise.h"

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
results.finish()
