# Shared by the tests of bundles: maker/ with a recipe that has a module, a base and a template of its
# own, its run, and two bundles of it: dpo.xrb, and whole.xrb with data and weights. Sourced.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

mkdir -p maker/lib && mv tiny maker/tiny && cd maker
cp "$root/tests/data/pairs.jsonl" pairs.jsonl
python3 - <<'PYTHON'
import json
config = json.load(open("tiny/tokenizer_config.json"))
open("chat.jinja", "w").write(config.get("chat_template") or open("tiny/chat_template.jinja").read())
PYTHON
echo 'return { scale = 2 }' >lib/scale.lua
cat >base.lua <<'LUA'
local cfg = xrun.config {
  beta  = 0.1,
  optim = { lr = 1e-3, warmup = 0.1 },
}
LUA
cat >dpo.lua <<'LUA'
local xrun  = require "xrun"
local scale = require "lib.scale".scale
local cfg = xrun.config {
  extends  = "base.lua",
  model    = "tiny",
  template = "chat.jinja",
  data     = { { path = "pairs.jsonl" } },
  optim    = { lr = 1e-4 },
  batch    = { pairs = 2 },
  steps    = 4,
}
local policy    = xrun.policy(cfg.model)
local reference = policy:reference()
local data      = xrun.preference(cfg.data, policy)
local adamw     = xrun.adamw(policy, cfg.optim)
local function dpo(p)
  local chosen   = policy:logprob(p.chosen) - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  return -(scale * cfg.beta * (chosen - rejected)):log_sigmoid()
end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for _, batch in run:steps(data, cfg.batch) do run:log(adamw:step(batch, dpo)) end
run:export(policy)
LUA

"$xrun" dpo.lua --run run >/dev/null
wants 0 "first steps: 4 of the run" "$xrun" bundle dpo.lua --run run -o dpo.xrb
"$xrun" bundle dpo.lua --run run --with-data --with-model -o whole.xrb >/dev/null
cd ..
