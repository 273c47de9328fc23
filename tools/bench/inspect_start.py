"""Times `xrun inspect` from its start to its first pack and to its end, in seconds; median and range.

python3 tools/bench/inspect_start.py [-n 20] build/bin/xrun inspect RECIPE.lua ...

The first run, which may build the cache, is not counted. The output must contain a pack.
"""
import argparse
import statistics
import subprocess
import time


def once(command):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = None
    for line in process.stdout:
        if first is None and b"pack 0" in line:
            first = time.perf_counter() - begin
    if process.wait() != 0 or first is None:
        raise SystemExit("no pack: " + " ".join(command))
    return first, time.perf_counter() - begin


parser = argparse.ArgumentParser()
parser.add_argument("-n", type=int, default=20)
parser.add_argument("command", nargs=argparse.REMAINDER)
arguments = parser.parse_args()
once(arguments.command)
runs = [once(arguments.command) for _ in range(arguments.n)]
for name, values in (("first pack", [run[0] for run in runs]), ("end", [run[1] for run in runs])):
    print(f"{name:10}  median {statistics.median(values):.3f} s  {min(values):.3f} to {max(values):.3f}")
