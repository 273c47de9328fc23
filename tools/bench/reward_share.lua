-- reward_share.lua: the time of 1,000 rewards of about 20 us each, on worker states or, with
-- `--set where=recipe`, in the recipe's state. Prints the time of one reward; perf/reward_s in the
-- run's metrics.jsonl is the time of all 1,000. Needs `xrun init-model tiny --tokenizer ...`.
local xrun = require "xrun"

local cfg = xrun.config {
  where = "workers",                                          -- or "recipe"
  model = "tiny", template = "chatml",
  data  = { { path = "recipes/data/sums.jsonl" } },
  optim = { lr = 1e-5 }, batch = { prompts = 125, max_tokens = 8192 }, steps = 5,
}
local policy = xrun.policy(cfg.model)
local outside = 1

local function on_workers(s)
  local n = 0
  for i = 1, 3000 do n = n + i % 7 end
  return n % 2 + s.index
end
local function in_recipe(s)
  local n = outside
  for i = 1, 3000 do n = n + i % 7 end
  return n % 2 + s.index
end

local began = os.clock()
for _ = 1, 1000 do in_recipe { index = 0 } end
print(("%.1f us a reward"):format((os.clock() - began) * 1e3))
local run = xrun.run(cfg, { policy = policy, adamw = xrun.adamw(policy, cfg.optim) })
for _, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  policy:sample(prompts, { samples = 8, max_tokens = 2 })
    :score(cfg.where == "workers" and on_workers or in_recipe)
end
