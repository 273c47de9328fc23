#!/usr/bin/env python3
"""Chains of runs that are killed and resume on another number of ranks at another level.

  dist_chains.py [--chains 3] [--first 0] [--seed 1] [--ranks 4]   (--ranks is the most)

kill -9 of a random rank or of the launcher, at a random step or time, ends each run of a chain but the
last. The last one runs to its end, where metrics and weights must be those of one undisturbed process,
bit for bit.
"""
import argparse, collections, os, random, signal, sys, time

import dist_runs as runs

STEPS = 16
NAMES = ["dpo", "sft", "grpo", "moe"]
EXACT = "dist.exact=true"


class Chain:
    def __init__(self, random_, number, counts, most):
        self.random, self.counts, self.most = random_, counts, most
        self.folder = f"chain{number}"
        self.name = random_.choice(NAMES)
        self.said = []

    def start(self, ranks):
        level = self.random.randrange(4)
        fresh = not os.path.exists(self.folder + "/run.json")
        settings = [f"dist.level={level}", EXACT]
        if fresh:  # a resume takes the others from the folder
            settings += [f"steps={STEPS}", "save.every=2"]
        words = runs.command(ranks, self.name, settings, ["--run", self.folder])
        if not fresh:
            recipe = next(word for word in words if word.endswith(".lua"))
            words = words[:words.index(recipe) + 1] + [
                "--threads", "1", "--run", self.folder, "--resume", "--set", f"dist.level={level}"]
        self.said.append(f"{'start' if fresh else 'resume'} on {ranks} at level {level}")
        return runs.Started(words)

    def wait_for_moment(self, started):
        """Waits until a random step has been logged, or for a random time after the start."""
        if self.random.random() < 0.25:
            time.sleep(self.random.random() * 2)
            return
        path = self.folder + "/metrics.jsonl"
        step = runs.lines_of(path) + self.random.randint(1, 5)
        runs.wait_until(lambda: runs.lines_of(path) >= step or started.child.poll() is not None, 60)
        time.sleep(self.random.random() * 0.1)

    def kill_one(self, started, ranks):
        """Kills a random process; returns True unless the run had ended before."""
        self.wait_for_moment(started)
        processes = started.ranks()
        everyone = [started.child.pid] + list(processes.values())
        launcher = ranks == 0 or not processes or self.random.random() < 0.3
        victim = started.child.pid if launcher else self.random.choice(list(processes.values()))
        runs.kill(victim, signal.SIGKILL)
        status = started.end(120)  # dist_kills.py measures the time
        hit = status not in (0, None)
        who = "process" if ranks == 0 else "launcher" if launcher else "rank"
        step = runs.lines_of(self.folder + "/metrics.jsonl")
        self.said.append(f"kill of the {who} after {step} steps, status {status}")
        assert status is not None, "the run hangs: " + started.text()
        assert runs.wait_until(lambda: not runs.alive(everyone), 60), "a process is left"
        if hit:
            self.counts["kills of a " + who] += 1
        return hit

    def run(self, wanted):
        worlds = [self.random.randint(1, self.most) for _ in range(self.random.randint(2, 4))]
        for i, ranks in enumerate(worlds):
            ranks = 0 if ranks == 1 and self.random.random() < 0.5 else ranks
            started = self.start(ranks)
            if i + 1 < len(worlds):
                if self.kill_one(started, ranks):
                    self.counts[f"{max(ranks, 1)} -> {worlds[i + 1]}"] += 1
            else:
                status = started.end(600)
                assert status == 0, f"status {status}: {started.text()}"
        assert runs.same_run(wanted, self.folder), "metrics or weights differ"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chains", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    work = runs.prepare("dist_chains")
    counts, failed = collections.Counter(), 0
    for number in range(options.first, options.first + options.chains):
        chain = Chain(random.Random(f"{options.seed} {number}"), number, counts, options.ranks)
        if not os.path.exists("whole-" + chain.name):
            runs.run(runs.command(0, chain.name, [f"steps={STEPS}", "save.every=2"],
                                  ["--run", "whole-" + chain.name]))
        try:
            chain.run("whole-" + chain.name)
            runs.clean(chain.folder)
        except AssertionError as error:
            failed += 1
            print(f"FAILED: chain {number} of {chain.name}: {error}\n  " + "\n  ".join(chain.said))
        else:
            print(f"chain {number}, {chain.name}: {'; '.join(chain.said)}", flush=True)
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print(f"{options.chains} chains, {failed} failed")
    if not failed:
        os.chdir("/")
        runs.clean(work)
    sys.exit(bool(failed))


main()
