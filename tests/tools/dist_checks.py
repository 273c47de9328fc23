#!/usr/bin/env python3
"""Random steps on random ranks, levels and settings, with every collective compared across ranks.

  dist_checks.py [--actions 200] [--seed 1]

XRUN_DIST_CHECK=1 ends a run at the first collective whose name, shapes, dtype or sizes differ between
ranks. The actions are those of dist_checks.lua: updates from pairs, chats, both or answers, evaluations,
scores, the average. A last run, in which one rank calls a different collective, must fail.
"""
import argparse, os, random, re, sys

import dist_runs as runs

BODIES = 100  # the most of a run


def settings(random_, level):
    out = [f"data.1.path={runs.ROOT}/tests/data/pairs.jsonl",
           f"chats.1.path={runs.ROOT}/recipes/data/chats.jsonl",
           f"sums.1.path={runs.ROOT}/recipes/data/sums.jsonl", f"dist.level={level}",
           f"seed={random_.randrange(1000)}", f"batch.pairs={random_.randint(1, 6)}",
           f"batch.sequences={random_.randint(1, 4)}", f"batch.prompts={random_.randint(1, 3)}",
           f"batch.max_tokens={random_.choice([700, 1000, 2000])}",
           f"batch.fold={random_.choice(['auto', 'true', 'false'])}",
           f"recompute={random_.choice(['true', 'false'])}",
           f"save.every={random_.choice([7, 50])}"]
    if random_.random() < 0.2:
        out.append("lora.rank=2")
    elif random_.random() < 0.2:
        out.append('train={ "*.mlp.*" }')
    return out


def run(random_, bodies, differs=False):
    """Returns the status of a random run, its output and a line that describes it."""
    ranks, level = random_.choice([2, 2, 3, 4]), random_.randrange(4)
    name = random_.choice(["checks", "checks_moe"])
    sets = settings(random_, level) + [f"steps={bodies}", f"differs={str(differs).lower()}"]
    status, text = runs.run(runs.command(ranks, name, sets, ["--run", "run"]), check=False)
    if status == 0:
        assert len(runs.metrics("run")) == bodies
    runs.clean("run")
    return status, text, f"{name} on {ranks} ranks, {' '.join(sets[3:])}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--actions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    recipe = os.path.join(runs.ROOT, "tests/tools/dist_checks.lua")
    runs.RECIPES["checks"] = (recipe, "tiny", [])
    runs.RECIPES["checks_moe"] = (recipe, "moe", ["moe.aux=0.01"])
    work = runs.prepare("dist_checks")
    os.environ["XRUN_DIST_CHECK"] = "1"
    done = collectives = failed = number = 0
    while done < options.actions and failed < 5:
        random_ = random.Random(f"{options.seed} {number}")
        number += 1
        status, text, what = run(random_, min(BODIES, max(2, (options.actions - done) // 3)))
        counted = re.search(r"(\d+) collectives had the same arguments", text)
        actions = re.search(r"actions: (\d+)", text)
        if status != 0 or counted is None or actions is None:
            failed += 1
            print(f"FAILED: {what}: status {status}\n{text[-2000:]}", flush=True)
            continue
        collectives += int(counted[1])
        done += int(actions[1])
        print(f"{what}: {actions[1]} actions, {counted[1]} collectives", flush=True)
    status, text, _ = run(random.Random(options.seed), 10, differs=True)
    if status != 1 or "differs between ranks" not in text:
        failed += 1
        print(f"FAILED: a collective that differs was not detected: status {status}\n{text}")
    print(f"{done} actions in {number} runs, {collectives} collectives compared, {failed} failed")
    os.chdir("/")
    runs.clean(work)
    sys.exit(bool(failed))


main()
