"""Runs a command, and then prints its processor time and peak memory as a JSON line. usage: usage.py COMMAND [ARGUMENT...]"""
import json
import os
import sys

child = os.fork()
if not child:
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(json.dumps({"processor_seconds": usage.ru_utime + usage.ru_stime, "peak_megabytes": usage.ru_maxrss // 1024}), flush=True)
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)
