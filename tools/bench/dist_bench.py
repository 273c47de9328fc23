#!/usr/bin/env python3
"""Times ranks of one thread against one process, on this machine.

  dist_bench.py XRUN speed [--pairs 3]     two ranks against one process of two threads, per level
  dist_bench.py XRUN memory                bytes of each rank against the plan, per level, and the
                                           peaks of loading and saving at level 3
  dist_bench.py XRUN start [--pairs 10]    start and end of four ranks against one process

The model is a llama of 4 layers of width 256 with the vocabulary of recipes/data/tokenizer. Arms run
in turn. Prints the medians and ranges of the ratios, and the load of the machine before each measurement.
"""
import argparse, json, os, shutil, statistics, subprocess, tempfile, time

import step_peer

ROOT = str(step_peer.ROOT)
SKIPPED = 2  # first steps, which compile kernels and touch memory
RECIPES = {
    "sft": ["template=chatml", "batch.sequences=32", "batch.max_tokens=512", "valid.fraction=0"],
    "dpo": ["answers=0", "batch.pairs=16", "batch.max_tokens=512", "valid.fraction=0",
            "template=chatml"],
}


def run(xrun, recipe, ranks, level, settings, environment=None, watch=None):
    """Runs a recipe; returns its run folder and its output."""
    folder = tempfile.mkdtemp(prefix="run", dir=".") + "/run"
    start = [xrun, "launch", "-n", str(ranks)] if ranks else [xrun]
    words = start + [f"recipes/{recipe}.lua", "--threads", "1" if ranks else "2", "--run", folder]
    for setting in RECIPES[recipe] + settings + ["model=" + os.environ["MODEL"], f"dist.level={level}"]:
        words += ["--set", setting]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             cwd=os.getcwd(), env={**os.environ, **(environment or {})})
    while watch and child.poll() is None:
        watch(child.pid)
        time.sleep(0.05)
    out = child.communicate()[0]
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{out}")
    return folder, out


def step_seconds(folder):
    lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
    return [line["perf/step_s"] for line in lines[SKIPPED:] if "perf/step_s" in line]


def speed(xrun, pairs):
    for recipe in RECIPES:
        ratios, ones = {level: [] for level in (0, 1, 3)}, []
        for _ in range(pairs):
            print("load", *os.getloadavg(), flush=True)
            one = statistics.median(step_seconds(run(xrun, recipe, 0, 1, ["steps=10"])[0]))
            ones.append(one)
            for level in ratios:
                folder, _ = run(xrun, recipe, 2, level, ["steps=10"])
                ratios[level].append(one / statistics.median(step_seconds(folder)))
        print(f"{recipe}: one process of two threads: {step_peer.spread(ones, 2)} s a step")
        for level, found in ratios.items():
            print(f"{recipe}, level {level}: {step_peer.spread(found, 2)} of its speed", flush=True)
    for level in (1, 3):
        folder, out = run(xrun, "sft", 2, level, ["steps=10"], {"XRUN_DIST_TIMES": "1"})
        total = sum(json.loads(line)["perf/step_s"] for line in open(folder + "/metrics.jsonl"))
        print(f"sft, level {level}, {total:.2f} s of steps:")
        print(out[out.index("collective of rank 0"):], flush=True)


def peak_rss(pid, into):
    """Keeps the highest peak of each child of `pid` in `into`, in bytes."""
    try:
        children = open(f"/proc/{pid}/task/{pid}/children").read().split()
        for child in children:
            for line in open(f"/proc/{child}/status"):
                if line.startswith("VmHWM"):
                    into[int(child)] = max(into.get(int(child), 0), 1024 * int(line.split()[1]))
    except OSError:
        pass


def memory(xrun):
    # Pairs of one length, so that every rank's packs are as full as the plan's.
    with open("pairs.jsonl", "w") as file:
        for i in range(128):
            row = {"prompt": f"What is {i % 10} plus {i // 10 % 10}?",
                   "chosen": f"The sum is {'one two three four ' * 8}{i % 10}.",
                   "rejected": f"Let me think about {'five six seven eight ' * 8}{i % 10}."}
            file.write(json.dumps(row) + "\n")
    for ranks in (2, 4):
        for level in range(4):
            peaks = {}
            folder, _ = run(xrun, "dpo", ranks, level, ["steps=3", "data.1.path=pairs.jsonl"],
                            watch=lambda pid: peak_rss(pid, peaks))
            found = json.load(open(folder + "/run.json"))["memory"]
            planned, measured = found["planned"], found["measured"]
            print(f"dpo on {ranks} ranks, level {level}: planned {planned['total'] / 1e6:.0f} MB, "
                  f"tensors {measured['total'] / 1e6:.0f} MB, planned / measured "
                  f"{planned['total'] / measured['total']:.3f}; RSS "
                  f"{', '.join(f'{peak / 1e6:.0f}' for peak in peaks.values())} MB", flush=True)
            print("   ", planned, measured)
    phases(xrun)


# Writes a rank's VmRSS and VmHWM at points between which it only loads, only trains or only saves.
PHASES = r"""
local xrun = require "xrun"
local cfg = xrun.config {
  model = "", data = { { path = "pairs.jsonl" } }, template = "chatml", optim = { lr = 1e-4 },
  batch = { pairs = 2, max_tokens = 512 }, steps = 4, save = { every = 3 },
}
local policy = xrun.policy(cfg.model)
local train = xrun.preference(cfg.data, policy, { template = cfg.template })
local adamw = xrun.adamw(policy, cfg.optim)
local out = io.open("phases." .. os.getenv("RANK"), "w")
local function note(phase)
  for line in io.lines("/proc/self/status") do
    local name, kb = line:match("^(Vm%u+):%s+(%d+)")
    if name == "VmRSS" or name == "VmHWM" then out:write(phase, " ", name, " ", kb, "\n") end
  end
  out:flush()
  local reset = io.open("/proc/self/clear_refs", "w")  -- VmHWM becomes VmRSS
  reset:write("5")
  reset:close()
end
note("start")
local run = xrun.run(cfg, { policy = policy, adamw = adamw })    -- may load the weights
for step, batch in run:steps(train, cfg.batch) do
  if step == 0 then
    policy:logprob(batch)                                    -- does load them
    note("load")
  end
  if step == 3 then note("save") end                         -- after the checkpoint of steps 0 to 2
  run:log(adamw:step(batch, function(p)
    return -(policy:logprob(p.chosen) - policy:logprob(p.rejected)):log_sigmoid()
  end))
  if step == 2 then note("steady") end
end
"""


def phases(xrun):
    """Level 3 on two ranks: peaks of loading and saving against the steady state. VmHWM counts the
    pages of the mapped file too."""
    with open("phases.lua", "w") as file:
        file.write(PHASES)
    subprocess.run([xrun, "init-model", "wide", "--tokenizer", ROOT + "/recipes/data/tokenizer",
                    "--layers", "12", "--hidden", "512", "--heads", "8"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([xrun, "launch", "-n", "2", "phases.lua", "--threads", "1", "--run", "phases",
                    "--set", "model=wide", "--set", "dist.level=3"], check=True,
                   stdout=subprocess.DEVNULL)
    with open("wide/model.safetensors", "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    sizes = [one["data_offsets"] for name, one in head.items() if name != "__metadata__"]
    largest = max(end - begin for begin, end in sizes) / 1e6
    whole = max(end for _, end in sizes) / 1e6
    for rank in range(2):
        mb = {}
        for line in open(f"phases.{rank}"):
            phase, name, kb = line.split()
            mb[phase, name] = int(kb) * 1024 / 1e6
        steady = mb["steady", "VmRSS"]
        loading, saving = mb["load", "VmHWM"], mb["save", "VmHWM"]
        before = mb["start", "VmRSS"]
        print(f"level 3, rank {rank} of 2: {whole:.0f} MB of weights, largest {largest:.1f} MB; "
              f"RSS {before:.0f} MB before they load; steady state {steady:.0f} MB; VmHWM while "
              f"loading {loading:.0f} MB ({loading - steady:+.1f}), while saving "
              f"{saving:.0f} MB ({saving - steady:+.1f}); wanted at most +{largest:.1f}", flush=True)


def start(xrun, pairs):
    open("empty.lua", "w").write("")
    arms = {"empty, one process": [xrun, "empty.lua"],
            "empty, 4 ranks": [xrun, "launch", "-n", "4", "empty.lua", "--threads", "1"]}
    one_step = ["recipes/dpo.lua", "--steps", "1", "--threads", "1"]
    for setting in RECIPES["dpo"] + ["model=" + os.environ["MODEL"]]:
        one_step += ["--set", setting]
    arms["one step, one process"] = [xrun] + one_step
    arms["one step, 4 ranks"] = [xrun, "launch", "-n", "4"] + one_step
    times = {name: [] for name in arms}
    print("load", *os.getloadavg())
    for _ in range(pairs):
        for name, words in arms.items():
            shutil.rmtree("one", ignore_errors=True)
            begin = time.monotonic()
            subprocess.run(words + (["--run", "one"] if "one step" in name else []), check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times[name].append(time.monotonic() - begin)
    for name, found in times.items():
        print(f"{name}: {step_peer.spread(found, 2)} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xrun")
    parser.add_argument("what", choices=["speed", "memory", "start"])
    parser.add_argument("--pairs", type=int, default=0)
    options = parser.parse_args()
    xrun = os.path.abspath(options.xrun)
    work = tempfile.mkdtemp(prefix="dist_bench")
    os.chdir(work)
    os.symlink(ROOT + "/recipes", "recipes")
    os.environ.update(XRUN_CACHE=work + "/cache", MODEL=work + "/model")
    subprocess.run([xrun, "init-model", "model", "--tokenizer", ROOT + "/recipes/data/tokenizer",
                    "--layers", "4", "--hidden", "256", "--heads", "4"], check=True,
                   stdout=subprocess.DEVNULL)
    {"speed": (lambda: speed(xrun, options.pairs or 3)), "memory": (lambda: memory(xrun)),
     "start": (lambda: start(xrun, options.pairs or 10))}[options.what]()
    os.chdir("/")
    shutil.rmtree(work)


main()
