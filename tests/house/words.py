"""Nothing in the sources says that work is missing."""
import re

import house

WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

results = house.Results()
paths = house.files("src", "include", "examples", "proto", endings=("",))
results.check("no word for missing work",
              [f"{path}:{number}: {line.strip()}" for path in paths
               for number, line in enumerate(house.read(path).splitlines(), 1) if WORDS.search(line)])
results.check("every source opens with a comment",
              [path for path in house.files("src", "include") if not house.read(path).startswith("/*")])
results.finish()
