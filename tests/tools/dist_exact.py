#!/usr/bin/env python3
"""Compares 20 steps of each recipe on several ranks with those of one process.

  dist_exact.py --all            every recipe on 1, 2, 3, 4 and 7 ranks at levels 0 to 3
  dist_exact.py NAME:RANKS:LEVEL...

Prints the worst relative difference of the losses of all steps, of the gradient's norm and of the
gradient of step 0 (from the first moments after it), and whether metrics and final weights have the same
bits. Fails if a difference exceeds 1e-6 or if a bit differs: on the CPU in fp32 none may.
"""
import os, sys

import dist_runs as runs

STEPS, WORST = 20, 1e-6
WORLDS = [(1, 1)] + [(ranks, level) for ranks in (2, 3, 4, 7) for level in range(4)]


def relative(a, b):
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b))


def worst_metric(one, other, part):
    pairs = [(value, b.get(key)) for a, b in zip(one, other) for key, value in a.items()
             if part in key]
    return max(float("inf") if b is None else relative(a, b) for a, b in pairs)


def worst_gradient(one, other):
    """Returns the worst difference over all weights, each relative to its largest gradient."""
    worst = 0.0
    for name, values in one.items():
        if not name.startswith("exp_avg.") or not values:
            continue
        largest = max(abs(value) for value in values) or 1.0
        worst = max(worst, max(abs(a - b) for a, b in zip(values, other[name])) / largest)
    return worst


def train(name, ranks, level, folder):
    runs.run(runs.command(ranks, name, [f"steps={STEPS}", "save.every=1", f"save.keep={STEPS}",
                                        f"dist.level={level}"], ["--run", folder]))
    return runs.metrics(folder), runs.floats(folder + "/checkpoints/step_0000001/adamw.safetensors")


def compare(name, one, ranks, level):
    folder = f"{name}-{ranks}-{level}"
    metrics, first = train(name, ranks, level, folder)
    assert len(metrics) == len(one[0]) >= STEPS
    found = (worst_metric(one[0], metrics, "loss"), worst_metric(one[0], metrics, "grad_norm"),
             worst_gradient(one[1], first))
    same = runs.same_run("one-" + name, folder)
    runs.clean(folder)
    print(f"{name:9} {ranks:5} {level:5}   {found[0]:7.1e}   {found[1]:7.1e}   {found[2]:8.1e}   "
          f"{'same' if same else 'DIFFER'}", flush=True)
    return same and max(found) <= WORST


def main():
    rows = [row.split(":") for row in sys.argv[1:] if row != "--all"]
    rows = [(name, int(ranks), int(level)) for name, ranks, level in rows]
    if "--all" in sys.argv:
        rows = [(name, *world) for name in runs.RECIPES for world in WORLDS]
    work = runs.prepare("dist_exact")
    print("recipe    ranks level      loss  grad_norm   gradient   bits")
    failed, one, of = [], None, None
    for name, ranks, level in rows:
        if of != name:
            one, of = train(name, 0, 1, "one-" + name), name
        if not compare(name, one, ranks, level):
            failed.append(f"{name}:{ranks}:{level}")
    print(f"{len(rows)} worlds, {len(failed)} differ {' '.join(failed)}")
    os.chdir("/")
    runs.clean(work)
    sys.exit(bool(failed))


main()
