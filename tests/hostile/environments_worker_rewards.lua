-- expect: alone harmless
-- Rewards run in worker states, whose libraries are as limited as the recipe's.
local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "tasks.jsonl" } }, template = "chatml",
  batch = { prompts = 1 }, steps = 1, sampling = { samples = 2, max_tokens = 2 } }
local policy = xrun.policy(cfg.model)
local run = xrun.run(cfg, { policy = policy })
for _, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling)
  assert(rollouts:score(function(sample) return #sample.text:upper() end).reward:numel() == 2)
end
