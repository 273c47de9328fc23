#!/usr/bin/env python3
"""Compares the step time that `xrun plan --device this` predicts with that of runs, on this machine.

  plan_bench.py XRUN [--pairs 3] [--only TEXT]

Models are the shipped ones and a llama of 4 layers of width 256 with the vocabulary of
recipes/data/tokenizer. Each runs in one process of two threads and on two ranks of one thread at levels
1 and 3, with the values of references in the cache. Plans and runs alternate. Prints the medians and ranges of predicted and measured
seconds, of their ratios, and the load of the machine before each measurement.
"""
import argparse, json, os, shutil, statistics, subprocess, tempfile

from step_peer import ROOT, spread

SKIPPED = 2  # first steps, which compile kernels and touch memory
SHIPPED, MID = "shipped", "mid"
RECIPES = {
    ("dpo", SHIPPED): ["answers=0", "batch.max_tokens=1024", "steps=6"],
    ("dpo", MID): ["answers=0", "batch.pairs=16", "batch.max_tokens=512", "steps=12",
                   "template=chatml"],
    ("sft", SHIPPED): ["batch.max_tokens=1024", "steps=6"],
    ("sft", MID): ["template=chatml", "batch.sequences=32", "batch.max_tokens=512", "steps=12"],
    ("pretrain", SHIPPED): ["batch.max_tokens=512", "steps=12"],
}


def words(recipe, model, level):
    out = [f"recipes/{recipe}.lua", "--set", "valid.fraction=0", "--set", f"dist.level={level}"]
    for setting in RECIPES[recipe, model] + ([f"model={MID}"] if model == MID else []):
        out += ["--set", setting]
    return out


def output(command, statuses=(0,)):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in statuses:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def predicted(xrun, recipe, model, ranks, level):
    plan = json.loads(output([xrun, "plan", *words(recipe, model, level), "--device", "this",
                              "--gpus", str(ranks), "--json"], statuses=(0, 2)))
    [one] = [one for one in plan["levels"] if one["level"] == (level if ranks > 1 else 0)]
    return one["cached_step_s"]


def measured(xrun, recipe, model, ranks, level):
    folder = tempfile.mkdtemp(prefix="run", dir=".") + "/run"
    start = [xrun, "launch", "-n", str(ranks)] if ranks > 1 else [xrun]
    output([*start, *words(recipe, model, level), "--threads", str(2 // ranks), "--run", folder])
    lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
    steps = [line["perf/step_s"] for line in lines if "perf/step_s" in line]
    shutil.rmtree(folder)
    return statistics.mean(steps[SKIPPED:])


def compare(xrun, pairs, recipe, model, ranks, level):
    measured(xrun, recipe, model, ranks, level)  # fills the cache
    plans, runs = [], []
    for _ in range(pairs):
        print("load", *os.getloadavg(), flush=True)
        plans.append(predicted(xrun, recipe, model, ranks, level))
        runs.append(measured(xrun, recipe, model, ranks, level))
    ratios = [plan / run for plan, run in zip(plans, runs)]
    where = "1 process of 2 threads" if ranks == 1 else f"2 ranks of 1 thread, level {level}"
    print(f"{recipe}, {model}, {where}: predicted {spread(plans, 3)} s, measured {spread(runs, 3)} s, "
          f"ratio {spread(ratios, 3)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xrun")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", default="", help="of the arms, as \"dpo mid 1\"")
    options = parser.parse_args()
    xrun = os.path.abspath(options.xrun)
    models = os.path.join(os.environ.get("XRUN_CACHE", os.path.expanduser("~/.cache/xrun")), "models")
    work = tempfile.mkdtemp(prefix="plan_bench")
    os.chdir(work)
    os.symlink(ROOT / "recipes", "recipes")
    os.makedirs("cache")
    if os.path.isdir(models):
        os.symlink(models, "cache/models")
    os.environ["XRUN_CACHE"] = work + "/cache"
    output([xrun, "init-model", MID, "--tokenizer", ROOT / "recipes/data/tokenizer",
            "--layers", "4", "--hidden", "256", "--heads", "4"])
    for recipe, model in RECIPES:
        for ranks, level in ((1, 1), (2, 1), (2, 3)):
            if options.only in f"{recipe} {model} {ranks} {level}":
                compare(xrun, options.pairs, recipe, model, ranks, level)
    os.chdir("/")
    shutil.rmtree(work)


main()
