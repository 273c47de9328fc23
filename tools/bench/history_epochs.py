#!/usr/bin/env python3
"""Times two epochs of sampling, of which the second has the answers of the first as drafts.

    python3 tools/bench/history_epochs.py XRUN MODEL [--rows N] [--samples N] [--tokens N] [--lr X]
                                          [--draws row|step] [--pairs N] [--threads N]

Trains MODEL with history_epochs.lua, GRPO as in recipes/grpo.lua, on the first --rows prompts of
recipes/data/sums.jsonl, 8 prompts a step, so the policy is updated between the two answers to a prompt. Runs
with and without drafts alternate, and each pair reverses the order. Checked: both runs of a pair have the
same metrics (perf/* aside) and the same bytes in rollouts/, so every answer and log-prob is the same. Prints
the sampled tokens/s of each epoch, the ratio of the epochs and the share of the second epoch's tokens that
came from drafts: median (lowest to highest). The time is perf/sample_s; the first step of each epoch is left
out, since the first of all loads the weights.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

from step_peer import ROOT, alternate, spread

PROMPTS = 8


def trained(arguments, rows, out, drafts):
    """Runs both epochs; returns the lines of metrics.jsonl with a loss, by step."""
    settings = {"model": arguments.model, "data.1.path": rows, "sampling.samples": arguments.samples,
                "sampling.max_tokens": arguments.tokens, "sampling.draws": arguments.draws,
                "sampling.drafts": str(drafts).lower(), "optim.lr": arguments.lr, "save.minutes": 0}
    command = [arguments.xrun, str(ROOT / "tools/bench/history_epochs.lua"), "--run", str(out),
               "--threads", str(arguments.threads)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    steps = [json.loads(line) for line in open(out / "metrics.jsonl")]
    return [step for step in steps if "train/loss" in step]


def check_equal(a, b):
    """Asserts that two run folders hold the same answers, log-probs, rewards and losses."""
    for one, other in zip(*([json.loads(line) for line in open(run / "metrics.jsonl")]
                            for run in (a, b)), strict=True):
        kept = [{key: value for key, value in step.items() if not key.startswith("perf/")}
                for step in (one, other)]
        assert kept[0] == kept[1], kept
    names = [sorted(path.name for path in (run / "rollouts").iterdir()) for run in (a, b)]
    assert names[0] == names[1] and names[0], names
    for name in names[0]:
        assert (a / "rollouts" / name).read_bytes() == (b / "rollouts" / name).read_bytes(), name


def rate(arguments, steps):
    """Returns tokens/s of some steps."""
    answers = PROMPTS * arguments.samples
    return (sum(step["rollout/length"] * answers for step in steps) /
            sum(step["perf/sample_s"] for step in steps))


def report(arguments, name, runs):
    half = len(runs[0]) // 2
    first = [rate(arguments, run[1:half]) for run in runs]
    second = [rate(arguments, run[half + 1:]) for run in runs]
    text = (f"{name}: epoch 1 {spread(first, 0)}, epoch 2 {spread(second, 0)} tokens/s, "
            f"{spread([b / a for a, b in zip(first, second)], 2)} times")
    shares = [[step.get("perf/draft_accepted", 0) for step in run[half + 1:]] for run in runs]
    if any(map(any, shares)):
        text += f"; {spread([sum(some) / len(some) for some in shares], 2)} of the tokens came from drafts"
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xrun")
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--draws", choices=("row", "step"), default="row")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.rows % PROMPTS != 0 or arguments.rows < 2 * PROMPTS:
        parser.error(f"--rows is {arguments.rows}, wanted a multiple of {PROMPTS} from {2 * PROMPTS} on")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        lines = (ROOT / "recipes/data/sums.jsonl").read_text().splitlines(keepends=True)
        rows = work / "rows.jsonl"
        rows.write_text("".join(lines[:arguments.rows]))
        runs = {True: [], False: []}
        for number, pair in enumerate(alternate(arguments.pairs, lambda n: {
                drafts: (lambda drafts=drafts: trained(arguments, rows, work / f"{n}_{drafts}", drafts))
                for drafts in (True, False)})):
            check_equal(work / f"{number}_True", work / f"{number}_False")
            for drafts, steps in pair.items():
                assert len(steps) == 2 * arguments.rows // PROMPTS, len(steps)
                runs[drafts].append(steps)
        report(arguments, "with drafts", runs[True])
        report(arguments, "without", runs[False])


if __name__ == "__main__":
    main()
