#!/usr/bin/env bash
# xrun plan: every level, steps of all sizes of a schedule, prefixes as on a GPU, and the rates of
# this machine.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
spoil_weights # nothing reads the values
python3 - >rows.jsonl <<'PYTHON'
import json
asked = "which of the many old houses near the river would you like to see today ? " * 8
for i in range(32):
    print(json.dumps({"prompt": asked, "chosen": f"the house {i} .", "rejected": f"none of {i} ."}))
PYTHON
plan() { "$xrun" plan "$@" --set model=tiny --gpus "${gpus:-2}"; }
dpo() { plan "$root/recipes/dpo.lua" --set answers=0 --set data.1.path=rows.jsonl "$@"; }
# EXPRESSION: of the plan `p`, as --json in plan.json.
is() {
  python3 -c "import json, sys; p = json.load(open('plan.json')); sys.exit(not ($1))" ||
    { cat plan.json; fail "the plan is not: $1"; }
}
levels='[one["level"] for one in p["levels"]]'

# Of all weights, of a part, and under a value head.
dpo --json >plan.json
is "$levels == [0, 1, 2, 3]"
dpo --json --set 'train={ "*.mlp.*" }' >plan.json
is "$levels == [0, 1, 2, 3]"
cat >scorer.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "rows.jsonl" } },
  optim = { lr = 1e-3 }, batch = { pairs = 4 }, steps = 3 }
local policy = xrun.policy(cfg.model)
local scorer = xrun.scorer(policy)
local train = xrun.preference(cfg.data, policy)
local adamw = xrun.adamw(scorer, cfg.optim)
local run = xrun.run(cfg, { scorer = scorer, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  adamw:step(batch, function(p)
    return -(scorer:score(p.chosen) - scorer:score(p.rejected)):log_sigmoid()
  end)
end
LUA
plan scorer.lua --json >plan.json
is "$levels == [0, 1, 2, 3]"

# The planned steps are spread over the loop: three of four have the size of the schedule.
few=(--set batch.pairs=2 --set steps=100 --set batch.max_tokens=100000)
dpo --json "${few[@]}" >plan.json
is 'p["micro_batches"] == 1'
tokens=$(python3 -c "import json; print(json.load(open('plan.json'))['tokens'])")
dpo --json "${few[@]}" --set 'batch.schedule={ { step = 4, size = 16 } }' >plan.json
is "abs(p['tokens'] / $tokens - (1 + 3 * 8) / 4) < 0.05"
wants 0 'in 1 micro-batch (means)' dpo "${few[@]}"

# GPUs beyond the micro-batches of a step have nothing to do.
wants 0 '1 of 2 GPUs has no work: no planned step has more than 1 micro-batch' dpo "${few[@]}"
gpus=256 dpo --json "${few[@]}" >plan.json
is 'p["idle_gpus"] == 255'
gpus=1 dpo --json "${few[@]}" >plan.json
is 'p["idle_gpus"] == 0'

# Prefixes are held over micro-batches on the CPU only, so on a GPU each micro-batch has its own.
python3 - >chats.jsonl <<'PYTHON'
import json
asked = "which of the many old houses near the river would you like to see today ? " * 8
for i in range(32):
    print(json.dumps({"messages": [{"role": "user", "content": asked},
                                   {"role": "assistant", "content": f"the house {i} ."}]}))
PYTHON
cat >chats.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "chats.jsonl" } }, template = "chatml",
  optim = { lr = 1e-3 }, batch = { sequences = 6, max_tokens = 632 }, max_length = 632, steps = 3 }
local policy = xrun.policy(cfg.model)
local chats = xrun.chat(cfg.data, policy, { template = cfg.template })
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(chats, cfg.batch) do
  adamw:step(batch, function(t) return -policy:token_logprob(t) end)
end
LUA
wants 0 'tokens computed as' "$xrun" check chats.lua # its micro-batches share a prefix
plan chats.lua --json --set batch.fold=false >plan.json
whole=$(python3 -c "import json; print(json.load(open('plan.json'))['levels'][0]['memory']['total'])")
plan chats.lua --json >plan.json
is "p['levels'][0]['memory']['total'] >= $whole"

# A teacher goes with the run, in ranges from level 1 on, unless the recipe keeps it on the CPU.
cat >distill.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "chats.jsonl" } }, template = "chatml",
  optim = { lr = 1e-3 }, batch = { sequences = 6 }, max_length = 632, steps = 3, place = "" }
local policy = xrun.policy(cfg.model)
local teacher = xrun.frozen(cfg.model, cfg.place ~= "" and { device = cfg.place } or nil)
local chats = xrun.chat(cfg.data, policy, { template = cfg.template })
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(chats, cfg.batch) do
  adamw:step(batch, function(t) return xrun.kd(t, policy, teacher) end)
end
LUA
plan distill.lua --json >plan.json
bytes='p["levels"][0]["memory"]'
is "$bytes['frozen'] == 2 * p['weights'] and p['levels'][1]['memory']['frozen'] == p['weights']"
plan distill.lua --json --set 'place="cpu"' >plan.json
is "'frozen' not in $bytes"

# The rates of this machine, and processes that share its threads. A GPU would be used instead.
here() { dpo --device this "$@"; }
if ! nvidia-smi >/dev/null 2>&1; then
  gpus=1 here --json >plan.json
  is 'p["device"] == "this" and p["measured"] and [one["level"] for one in p["levels"]] == [0]'
  is 'all(rate > 0 for name, rate in p["rates_per_s"].items() if name != "link_bytes")'
  is '"measured here, in float32" in p["assumptions"][0]'
  is '0 < p["levels"][0]["cached_step_s"] < p["levels"][0]["step_s"]'
  gpus=1 plan "$root/recipes/dpo_lora.lua" --set data.1.path=rows.jsonl \
    --device this --json >plan.json
  is 'p["trained"] < p["weights"] and p["rates_per_s"]["block_backward_flops"] > 0'
  if [ "$(nproc)" -gt 1 ]; then
    here --json >plan.json
    is "$levels == [0, 1, 2, 3] and p['rates_per_s']['link_bytes'] > 0"
    is 'all(one["exposed_s"] == one["exchange_s"] > 0 for one in p["levels"])'
    wants 0 '2 processes of' here
    wants 0 'over loopback (measured)' here
    wants 0 'over loopback (assumed' here --untrusted
  fi
  gpus=100000 wants 2 'wanted at most one process for each' here
fi
wants 2 '--utilisation is a share of a published rate; --device this measures the rate' \
  here --utilisation 0.5
wants 2 '--device tpu: wanted one of a100, h100, h200, this' dpo --device tpu
