-- expect: alone harmless
-- The sample that a reward gets has a metatable too.
local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "tasks.jsonl" } }, template = "chatml",
  batch = { prompts = 1 }, steps = 1, sampling = { samples = 2, max_tokens = 2 } }
local policy = xrun.policy(cfg.model)
local run = xrun.run(cfg, { policy = policy })
for _, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling)
  rollouts:score(function(sample)
    local outside = print  -- a global that workers lack, so that the recipe's own state calls this
    local meta = getmetatable(sample)
    assert(outside and not meta)
    return 1
  end)
end
