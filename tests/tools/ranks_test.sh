#!/usr/bin/env bash
# A recipe on two ranks has the metrics and weights of one process, and a run changes between the two.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
small="--set steps=4 --set batch.pairs=5 --set batch.max_tokens=240 --threads 1"
dpo $small --run one >one.log
ranks=2
on_ranks() { "$xrun" launch -n $ranks "$root/recipes/dpo.lua" --set model=tiny --set answers=0 \
  --set data.1.path="$root/tests/data/pairs.jsonl" $small "$@"; }
on_ranks --run two >two.log 2>&1 || { cat two.log; fail "two ranks"; }
same_run one two
grep -q 'step 3' two/log.txt || { cat two/log.txt; fail "no steps in log.txt"; }
python3 - <<'PYTHON' || fail "run.json does not have the number of ranks"
import json
assert json.load(open("two/run.json"))["machine"]["ranks"] == 2
PYTHON

# A run of one process resumes on two ranks, and the other way round.
dpo $small --run grown --steps 2 >/dev/null
on_ranks --run grown --resume >grown.log 2>&1 || { cat grown.log; fail "one process to two ranks"; }
same_run one grown

# Weights of the same model that differ between ranks are refused before step 0.
cp -r tiny other
python3 - <<'PYTHON'
with open("other/model.safetensors", "r+b") as file:
    file.seek(-2, 2)
    byte = file.read(1)[0]
    file.seek(-2, 2)
    file.write(bytes([byte ^ 1]))
PYTHON
cat >weights.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config { steps = 2, frozen = false, optim = { lr = 1e-3 }, data = { { path = "chats.jsonl" } }, max_length = 64,
  over_length = "cut", batch = { sequences = 2 } }
local own = os.getenv("RANK") == "1" and "other" or "tiny"
local policy = xrun.policy(cfg.frozen and "tiny" or own)
local teacher = cfg.frozen and xrun.frozen(own)
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for _, batch in run:steps(xrun.chat(cfg.data, policy), cfg.batch) do
  run:log(adamw:step(batch, function(t) return -policy:token_logprob(t) end))
end
LUA
cp "$root/recipes/data/chats.jsonl" .
wants 2 'the same model weights, but they differ on rank 1: plan.policy 1 is' "$xrun" launch -n 2 \
  weights.lua --threads 1 --run weights
wants 2 'the same model weights, but they differ on rank 1: plan.frozen model 1 is' "$xrun" launch -n 2 \
  weights.lua --threads 1 --set frozen=true --run weights
