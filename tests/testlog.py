"""The results of meson test, as it writes them: a line of JSON for each program that ran."""
import json
import os


def entries(path):
    """[] where there is no log: the tests did not run."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log if line.strip()]


def name_of(entry):
    """Without its suites."""
    return entry["name"].split(" / ")[-1]


def is_good(entry):
    return entry["result"] in ("OK", "EXPECTEDFAIL")
