#!/usr/bin/env python3
"""Runs generated Lua programs (lua_program.lua) as recipes that are not trusted.

  lua_program.py XRUN SECONDS [SEED]      runs batches until the time is over; prints their number
  lua_program.py XRUN show SEED NUMBER    prints one program
  lua_program.py XRUN replay FILE         each line a seed and two numbers, the first and last program

A finding is a program that ends the process in any way but by a limit; bisection finds it in its batch.
The generator's coroutines catch errors, so "status 1" without a limit is a finding too.
"""
import os, re, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, LIMIT_S = 1000, 30


def operators():
    text = open(HERE + "/../../lua/tensor/op_rights.cpp").read()
    listed = re.search(r"kAllowedOps =\n(.*?);", text, re.S)[1]
    return sorted(set(re.findall(r"\w+", listed)))


def run(xrun, seed, first, last, show=False):
    """Returns the number of the last program begun, how the batch ended, and its output."""
    names = ", ".join(f'"{name}"' for name in operators())
    text = open(HERE + "/lua_program.lua").read().replace(
        '= 1, 1, 100, false, { "add" }',
        f"= {seed}, {first}, {last}, {str(show).lower()}, {{ {names} }}")
    with tempfile.TemporaryDirectory(prefix="lua-fuzz-") as folder:
        with open(folder + "/programs.lua", "w") as file:
            file.write(text)
        done = subprocess.run(
            [xrun, "programs.lua", "--untrusted", "--threads", "1", "--limit-seconds", str(LIMIT_S),
             "--limit-memory", "500"], cwd=folder, stdin=subprocess.DEVNULL,
            env=dict(os.environ, XRUN_CACHE=folder + "/cache"), errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    begun = [int(number) for number in re.findall(r"^@(\d+)$", done.stdout, re.M)]
    if "@end" in done.stdout and done.returncode == 0:
        end = "finished"
    elif done.returncode == 1 and "--limit-" in done.stdout:
        end = "limit"
    else:
        end = f"status {done.returncode}"
    return (begun[-1] if begun else first), end, done.stdout


def search(xrun, seed, first, last):
    """Narrows the programs that together end the process: an earlier one may have changed a table
    that a later one reads."""
    def ends(a, b):
        return run(xrun, seed, a, b)[1].startswith("status")
    low = first
    while low < last:
        middle = (low + last) // 2
        low, last = (low, middle) if ends(first, middle) else (middle + 1, last)
    low, high = first, last
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if ends(middle, last) else (low, middle - 1)
    return low, last


def show(xrun, seed, number):
    return run(xrun, seed, number, number, show=True)[2]


def fuzz(xrun, seconds, seed):
    until = time.monotonic() + seconds
    at, limits, found = 1, 0, 0
    while time.monotonic() < until:
        last, end, out = run(xrun, seed, at, at + BATCH - 1)
        if end.startswith("status"):
            found += 1
            begin, number = search(xrun, seed, at, at + BATCH - 1)
            print(f"FOUND: seed {seed}, programs {begin} to {number}: {end}: {out[-800:]}\n"
                  f"{show(xrun, seed, number)}", flush=True)
            last = at + BATCH - 1
        limits += end == "limit"
        at = last + 1
    print(f"stat::number_of_executed_units: {at - 1}")
    print(f"{at - 1} programs, {limits} batches ended by a limit, {found} findings")
    return found


def main():
    xrun = os.path.abspath(sys.argv[1])
    if sys.argv[2] == "show":
        print(show(xrun, int(sys.argv[3]), int(sys.argv[4])))
    elif sys.argv[2] == "replay":
        bad = 0
        for line in open(sys.argv[3]):
            seed, first, last = map(int, line.split()[:3])
            _, end, out = run(xrun, seed, first, last)
            if end != "finished":
                bad += 1
                print(f"FAILED: seed {seed}, programs {first} to {last}: {end}: {out[-800:]}")
        sys.exit(bool(bad))
    else:
        sys.exit(bool(fuzz(xrun, float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)))


main()
