"""The picture of the README is what its script makes of its table, and the documents have the table's numbers."""
import csv
import os

import house

PICTURE = "docs/images/killed-worker"
results = house.Results()
status, made = house.run([os.path.join(house.ROOT, PICTURE)])
results.check(f"{PICTURE}.svg is what {PICTURE} makes", [f"{PICTURE} > {PICTURE}.svg makes another"] if status or made != house.read(PICTURE + ".svg") else [])
rows = list(csv.DictReader(house.read(PICTURE + ".csv").splitlines()))
results.check("the table is read", [] if len(rows) == 3 else rows)
table = house.read("docs/recovery.md").partition("## What it costs")[2]
results.check("docs/recovery.md has its numbers", [row for row in rows if f"| {row['seconds']} |" not in table])
readme = house.read("README.md")
results.check("README.md has its numbers", [row for row in rows if f"{row['seconds']} s" not in readme])
place = readme.splitlines().index("## Start")
results.check("the picture stands above the start, and the first run in the first screen",
              [] if f"({PICTURE}.svg)" in readme.partition("## Start")[0] and place < 14 else [f"'## Start' is line {place + 1}"])
results.finish()
