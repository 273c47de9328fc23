#!/usr/bin/env python3
"""Times training steps with folded against unfolded prefixes, after checking that the losses agree.

    python3 tools/bench/fold_step.py XRUN TOKENIZER [SHAPE...] [--preset tiny|mid] [--steps N] [--rounds N]
                                     [--vocab N] [--threads N] [--json]

SHAPE is PROMPTxRESPONSExGROUP in tokens and sequences per prompt, or "agent": calls of an agent, each of
which repeats the history of 256 + 128 k tokens and answers 32; the default shapes are below. Pairs (group
2) train by recipes/dpo.lua, the others by recipes/sft.lua over rows of prompt and completion. Each run is a separate process; runs with batch.fold = false and true alternate, and each round reverses the
order. The log-probs of the reference are computed before the first of them. A time is the median of perf/step_s without the first 2 steps, a ratio that of one round; the line
has the median of the ratios (lowest to highest), the ratio of tokens, and that of the model's FLOPs in a
step, which no implementation can pass: the head and the answers are never shared. Memory is the peak that
tensors held, folded over unfolded. Losses must agree within 1e-3. --vocab cuts TOKENIZER, a BPE tokenizer
with byte fallback such as Llama-2's, down to its first merges.
"""
import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESETS = {"tiny": ["--layers", "4", "--hidden", "256", "--heads", "4"],
           "mid": ["--layers", "8", "--hidden", "512", "--heads", "8"]}
SHAPES = ["70x500x2", "100x250x2", "400x200x2", "600x100x2", "256x64x8", "1024x64x8", "agent"]
AGENT_CALLS = 6
# One token each, also in the first 4,096 of Llama-2's vocabulary.
WORDS = "way part time work year point number under right name line over first after where".split()


def write_small_tokenizer(source, size, out):
    """Writes the special tokens, bytes, characters and first merges of a BPE tokenizer: `size` tokens."""
    spec = json.load(open(source / "tokenizer.json"))
    model = spec["model"]
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
    made = {"".join(merge) for merge in merges}
    kept = {token for token in model["vocab"] if token not in made}
    kept.update(sorted(made, key=model["vocab"].get)[:size - len(kept)])
    ids = sorted(kept, key=model["vocab"].get)
    model["vocab"] = {token: i for i, token in enumerate(ids)}
    model["merges"] = [[a, b] for a, b in merges if {a, b, a + b} <= kept]
    out.mkdir()
    json.dump(spec, open(out / "tokenizer.json", "w"))
    shutil.copy(source / "tokenizer_config.json", out)
    return out


def text(rng, tokens):
    return " ".join(rng.choice(WORDS) for _ in range(tokens))


def write_calls(path, count):
    rng = random.Random(7)
    with open(path, "w") as out:
        for _ in range(count):
            history = text(rng, 256)
            for _ in range(AGENT_CALLS):
                out.write(json.dumps({"prompt": history, "completion": text(rng, 32)}) + "\n")
                history += " " + text(rng, 128)


def write_rows(path, prompt, response, group, count):
    rng = random.Random(7)
    with open(path, "w") as out:
        for _ in range(count):
            asked = text(rng, prompt)
            if group == 2:
                row = {"prompt": asked, "chosen": text(rng, response), "rejected": text(rng, response)}
                out.write(json.dumps(row) + "\n")
                continue
            for _ in range(group):
                out.write(json.dumps({"prompt": asked, "completion": text(rng, response)}) + "\n")


def run(options, folder, rows, group, steps, fold, name):
    recipe = "dpo" if group == 2 else "sft"
    unit = "pairs=4" if group == 2 else f"sequences={2 * group}"
    settings = ["data.1.path=" + str(rows), "model=" + str(folder / "model"), f"steps={steps}",
                "batch." + unit, f"batch.fold={fold}", "batch.max_tokens=32768", "max_length=8192",
                "shuffle=false", "valid.fraction=0", "template=llama-2"]
    if recipe == "dpo":
        settings.append("answers=0")
    else:
        settings[0] = 'data={{path="' + str(rows) + '"}}'
    command = [options.xrun, str(ROOT / "recipes" / (recipe + ".lua")), "--run", str(folder / name),
               "--threads", str(options.threads)]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in open(folder / name / "metrics.jsonl")]
    lines = [line for line in lines if "perf/step_s" in line]
    record = json.load(open(folder / name / "run.json"))
    return {"seconds": statistics.median(line["perf/step_s"] for line in lines[2:]),
            "flops": sum(line["perf/flops_per_s"] * line["perf/step_s"] for line in lines),
            "losses": [line["train/loss"] for line in lines],
            "tokens": record["fold"].get("ratio", 1.0),
            "memory": record["memory"]["measured"]["total"]}


def measure(options, shape):
    agent = shape == "agent"
    prompt, response, group = (0, 0, AGENT_CALLS) if agent else map(int, shape.split("x"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokenizer = pathlib.Path(options.tokenizer)
        if options.vocab:
            tokenizer = write_small_tokenizer(tokenizer, options.vocab, folder / "tokenizer")
        subprocess.run([options.xrun, "init-model", str(folder / "model"), "--tokenizer",
                        str(tokenizer)] + PRESETS[options.preset], check=True, capture_output=True)
        rows = folder / "rows.jsonl"
        if agent:
            write_calls(rows, 2 * options.steps)
        else:
            write_rows(rows, prompt, response, group, (4 if group == 2 else 2) * options.steps)
        ratios = []
        # Not counted: computes the log-probs of the reference, which later runs read.
        run(options, folder, rows, group, options.steps, "true", "first")
        for k in range(options.rounds):
            order = ["false", "true"] if k % 2 == 0 else ["true", "false"]
            done = {fold: run(options, folder, rows, group, options.steps, fold, f"{fold}{k}")
                    for fold in order}
            plain, folded = done["false"], done["true"]
            worst = max(abs(a - b) for a, b in zip(plain["losses"], folded["losses"]))
            if worst > 1e-3:
                sys.exit(f"{shape}: the losses differ by {worst}")
            ratios.append(plain["seconds"] / folded["seconds"])
    return {"benchmark": "fold", "shape": shape, "preset": options.preset,
            "tokens": round(folded["tokens"], 2), "flops": round(plain["flops"] / folded["flops"], 2),
            "memory": round(folded["memory"] / plain["memory"], 2),
            "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("xrun")
    parser.add_argument("tokenizer")
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.xrun = str(pathlib.Path(options.xrun).resolve())
    for shape in options.shapes:
        row = measure(options, shape)
        print(json.dumps(row) if options.json else
              f"{shape:12} {row['preset']}: tokens {row['tokens']:.2f}x, FLOPs {row['flops']:.2f}x, step {row['ratio']:.2f}x "
              f"({row['low']:.2f} to {row['high']:.2f}), memory {row['memory']:.2f}", flush=True)


if __name__ == "__main__":
    main()
