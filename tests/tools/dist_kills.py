#!/usr/bin/env python3
"""Kills, stops and breaks ranks: all ranks must end, and the report must name the one at fault.

  dist_kills.py [--kills 6] [--seed 1] [--kind KIND]

A trial draws a recipe, 2 to 4 ranks, a level, a rank, a time and one of these faults:
  killed   kill -9
  stopped  SIGSTOP
  loops    an endless loop in the body of the recipe or in its objective
  fails    a Lua error there
  both     such an error, and within a second kill -9 of any rank, which may hit the save
A trial fails if
  - no report names the rank within 15 s, or not all ranks have ended within 30 s
  - a process is left
  - the steps before a Lua error are not saved
  - a resume on 1 to 4 ranks has other losses than a run without the error
Prints the times by kind.
"""
import argparse, collections, os, random, re, signal, sys, time

import dist_runs as runs

KINDS = ["killed", "stopped", "loops", "fails", "both"]
SHARES = [5, 3, 2, 2, 1]
LIMIT_S = 15.0
FAULT = 'if os.getenv("RANK") == "%d" and step >= %d and not os.getenv("WELL") then io.stderr:write("it begins\\n") %s end\n'
LUA = {"loops": "while true do end", "fails": 'error("it fails")', "both": 'error("it fails")'}


def faulty(name, kind, rank, step, in_objective, to):
    """Writes a copy of the recipe in which the rank loops or fails from a step on."""
    text = open(f"{runs.ROOT}/recipes/{runs.RECIPES[name][0]}.lua").read()
    text = "local step = 0\n" + text  # the objective's; shadowed in the body
    loop = FAULT % (rank, step, LUA[kind])
    if in_objective:
        text = re.sub(r"(\nlocal function (?:dpo|nll|grpo)\(\w+\))", r"\1\n  " + loop.replace("\\", "\\\\"),
                      text)
        text = re.sub(r"(\nfor \w+, \w+ in run:steps.*\n)", r"\1  step_now(step)\n", text)
        text = text.replace("local step = 0\n", "local step = 0\nlocal function step_now(s) step = s end\n", 1)
    else:
        text = re.sub(r"(\nfor \w+, \w+ in run:steps.*\n)", lambda found: found[1] + "  " + loop, text)
    with open(to, "w") as file:
        file.write(text)


class Trial:
    def __init__(self, random_, number, kind):
        self.random, self.kind = random_, kind
        self.name = random_.choice(["dpo", "sft", "grpo", "moe"])
        self.count, self.level = random_.randint(2, 4), random_.randrange(4)
        self.rank = random_.randrange(self.count)
        self.folder = f"run{number}"
        self.step = random_.randint(0, 5)
        self.early = kind == "killed" and random_.random() < 0.2

    def __str__(self):
        when = "at the start" if self.early else f"after {self.step} steps"
        return (f"{self.kind} {when}: rank {self.rank} of {self.count}, {self.name}, "
                f"level {self.level}")

    def start(self):
        settings = ["steps=100000", f"dist.level={self.level}"]
        words = runs.command(self.count, self.name, settings, ["--run", self.folder])
        if self.kind in LUA:
            recipe = next(i for i, word in enumerate(words) if word.endswith(".lua"))
            words[recipe] = self.folder + ".lua"
            # Not in the objective of a rank without micro-batches, which never runs it.
            self.in_objective = self.rank < 2 and self.random.random() < 0.5
            faulty(self.name, self.kind, self.rank, self.step, self.in_objective, words[recipe])
        return runs.Started(words)

    def fault(self, started):
        """Makes the rank fail; returns the time."""
        if self.kind in LUA:
            assert runs.wait_until(lambda: started.when("it begins"), 240), "no fault"
            if self.kind == "both":
                ranks = started.ranks()
                time.sleep(self.random.random())
                victim = ranks.get(self.random.randrange(self.count))
                if victim:
                    runs.kill(victim, signal.SIGKILL)
            return started.when("it begins")
        path = self.folder + "/metrics.jsonl"
        ready = (lambda: self.rank in started.ranks()) if self.early else (
            lambda: runs.lines_of(path) > self.step)
        assert runs.wait_until(ready, 240), "no step"
        time.sleep(self.random.random() * (1.5 if self.early else 0.5))
        begin = time.monotonic()
        runs.kill(started.ranks()[self.rank],
                  signal.SIGKILL if self.kind == "killed" else signal.SIGSTOP)
        return begin

    def run(self):
        """Returns the seconds from the fault to the report and to the end of all processes."""
        started = self.start()
        begin = self.fault(started)
        everyone = [started.child.pid] + list(started.ranks().values())
        status = started.end(LIMIT_S + 15)
        end = time.monotonic()
        assert status is not None, f"the run hangs: {started.text()}"
        assert runs.wait_until(lambda: not runs.alive(everyone), 5), "a process is left"
        said = started.when(f"rank {self.rank} of {self.count}: ")
        if self.kind == "both":
            said = said or end  # the rank that is killed may be the one that reports
        assert said is not None, f"no report: {started.text()}"
        assert status == 1, f"status {status}: {started.text()}"
        assert said - begin <= LIMIT_S, f"reported after {said - begin:.1f} s"
        if self.kind == "both" and os.path.exists(self.folder + "/checkpoints/latest"):
            self.check_resume()
        if self.kind == "fails":
            steps = runs.lines_of(self.folder + "/metrics.jsonl")
            saved = os.listdir(self.folder + "/checkpoints") if steps else ["step_0000000"]
            # A step of one micro-batch does not run the objective of rank 1.
            later = self.in_objective and self.rank == 1 and steps > self.step
            assert (steps == self.step or later) and f"step_{steps:07d}" in saved, \
                f"{steps} steps, saved {saved}, failed at {self.step}: {started.text()}"
            self.step = steps
            if steps:
                self.check_resume()
        runs.clean(self.folder)
        return said - begin, end - begin

    def check_resume(self):
        whole, steps = f"whole_{self.name}", str(self.step + 3)
        if not os.path.exists(whole):
            settings = ["steps=100000"]
            runs.run(runs.command(0, self.name, settings, ["--run", whole, "--steps", "16"]))
        ranks = self.random.randint(1, 4)
        start = [runs.XRUN, "launch", "-n", str(ranks)] if ranks > 1 else [runs.XRUN]
        again = ["--run", self.folder, "--resume", "--steps", steps, "--threads", "1"]
        environment = dict(os.environ, WELL="1")
        status, text = runs.run(start + [self.folder + ".lua"] + again, check=False, env=environment)
        assert status == 0, f"no resume on {ranks} ranks: {text}"
        wanted = runs.metrics(whole)[:self.step + 3]  # lines after the loop have other steps
        assert runs.metrics(self.folder)[:self.step + 3] == wanted, \
            f"the losses differ after the resume on {ranks} ranks"


def spread(values):
    values = sorted(values)
    return f"median {values[len(values) // 2]:.2f} s, worst {values[-1]:.2f} s"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS)
    options = parser.parse_args()
    work = runs.prepare("dist_kills")
    times, failed = collections.defaultdict(list), 0
    # Every kind in its share. Steps of 5 through the list mix the kinds.
    kinds = [KINDS[k] for k, share in enumerate(SHARES) for _ in range(share)]
    order = [options.kind or kinds[i % len(kinds)] for i in range(0, 5 * options.kills, 5)]
    for number, kind in enumerate(order):
        trial = Trial(random.Random(f"{options.seed} {number}"), number, kind)
        try:
            times[kind].append(trial.run())
            print(f"{trial}: reported after {times[kind][-1][0]:.2f} s, ended after "
                  f"{times[kind][-1][1]:.2f} s", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED: {trial}: {error}", flush=True)
    for kind, found in times.items():
        print(f"{kind}: {len(found)}; report {spread([a for a, _ in found])}; "
              f"end {spread([b for _, b in found])}")
    print(f"{options.kills} kills, {failed} failed; load {os.getloadavg()[0]:.1f}")
    os.chdir("/")
    runs.clean(work)
    sys.exit(bool(failed))


main()
