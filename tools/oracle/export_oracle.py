#!/usr/bin/env python3
"""Trains a step or two of every family and opens what xrun exports with transformers and PEFT.

    python3 tools/oracle/export_oracle.py [NAME...]

For each shape below it creates a small random model and trains it with recipes/dpo.lua (all weights),
with recipes/dpo_lora.lua (an adapter, merged and apart over its base) and under a value head (a
classifier with one label). It compares the log-probs of random ids by `xrun score`, and the scores that
the run prints, with those of transformers' and PEFT's classes on the exported folders. Prints the
largest difference of each; status 1 beyond 1e-4. XRUN names the program (default ./xrun). Packages: pip
install torch transformers peft.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from model_oracle import TOLERANCE, by_transformers, by_xrun, program, random_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = ["--layers", "2", "--hidden", "64", "--heads", "4",
         "--tokenizer", str(ROOT / "tests/data/tiny_tokenizer")]
SHAPES = {
    "llama": ["--preset", "tiny", "--kv-heads", "2"],
    "llama-untied": ["--preset", "tiny", "--untied"],
    "gpt2": ["--preset", "gpt2-tiny"],
    "qwen3-moe": ["--preset", "moe-8", "--kv-heads", "2"],
}
SCORES = """local xrun = require "xrun"
local cfg = xrun.config {
  model = "%s", data = { { path = "%s" } }, shuffle = false, steps = 3,
  optim = { lr = 1e-3 }, batch = { sequences = 5, max_tokens = 4096 },
}
local policy = xrun.policy(cfg.model)
local scorer = xrun.scorer(policy)
local rows = xrun.tokens(cfg.data, policy)
local adamw = xrun.adamw(scorer, cfg.optim)
local function away(p)
  local score = scorer:score(p.all)
  return { sequence = (score - p.all.tokens / 10):square() }
end
local run = xrun.run(cfg, { scorer = scorer, adamw = adamw })
for _, batch in run:steps(rows, cfg.batch) do run:log(adamw:step(batch, away)) end
run:evaluate(rows, function(p)
  local score, row = scorer:score(p.all), p.all.row
  for i = 0, score.shape[1] - 1 do
    print(string.format("score %%d %%.9g", row[i]:item(), score[i]:item()))
  end
  return { sequence = score }
end)
run:export(scorer)
"""


def xrun(*arguments):
    return subprocess.run([program(), *map(str, arguments)], stdout=subprocess.PIPE,
                          text=True, check=True).stdout


def train(work, recipe, *settings):
    xrun(ROOT / "recipes" / recipe, "--run", work / recipe, "--steps", 3,
         "--set", f"model={work}/model", "--set", "optim.lr=1e-3", "--set", "optim.warmup=0",
         "--set", "data.1.path=" + str(ROOT / "tests/data/pairs.jsonl"), *settings)
    return work / recipe / "hf"


def largest(got, want):
    assert len(got) == len(want)
    return max(abs(a - b) for g, w in zip(got, want) for a, b in zip(g, w, strict=True))


def largest_of(folder, model, rows):
    return largest(by_xrun(folder, rows), [by_transformers(model.eval(), ids) for ids in rows])


def causal(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def score_difference(work, rows):
    (work / "ids.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in rows))
    (work / "score.lua").write_text(SCORES % (work / "model", work / "ids.jsonl"))
    printed = xrun(work / "score.lua", "--run", work / "score")
    lines = [line.split()[1:] for line in printed.splitlines() if line.startswith("score ")]
    got = {int(row): float(score) for row, score in lines}
    assert sorted(got) == list(range(len(rows))) and max(map(abs, got.values())) > 0.01, got
    model = AutoModelForSequenceClassification.from_pretrained(work / "score/hf",
                                                               dtype=torch.float32).eval()
    with torch.no_grad():
        want = [model(torch.tensor([ids])).logits.item() for ids in rows]
    return largest([[got[i] for i in range(len(rows))]], [want])


def differences(work, shape):
    xrun("init-model", work / "model", *SIZES, *shape)
    base = causal(work / "model")
    rows = random_rows(base.config)
    yield "as made", largest_of(work / "model", base, rows)
    folder = train(work, "dpo.lua", "--set", "answers=0")
    yield "trained", largest_of(folder, causal(folder), rows)
    moved = largest(by_xrun(folder, rows), by_xrun(work / "model", rows))
    assert moved > 10 * TOLERANCE, moved
    folder = train(work, "dpo_lora.lua", "--set", 'lora.targets={ "all" }')
    yield "adapter, merged", largest_of(folder, causal(folder), rows)
    model = PeftModel.from_pretrained(base, folder / "adapter")
    yield "adapter, by PEFT", largest_of(folder / "adapter", model, rows)
    yield "classifier", score_difference(work, rows)


def main():
    worst = 0.0
    for name in sys.argv[1:] or SHAPES:
        with tempfile.TemporaryDirectory() as work:
            for what, difference in differences(pathlib.Path(work), SHAPES[name]):
                worst = max(worst, difference)
                print(f"{name}, {what}: {difference:.2g}", flush=True)
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
