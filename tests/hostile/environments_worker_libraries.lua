-- expect: alone error is not for a recipe
-- A reward that reaches for what workers lack runs in the recipe's own state, and fails there.
local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "tasks.jsonl" } }, template = "chatml",
  batch = { prompts = 1 }, steps = 1, sampling = { samples = 2, max_tokens = 2 } }
local policy = xrun.policy(cfg.model)
local run = xrun.run(cfg, { policy = policy })
for _, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  policy:sample(prompts, cfg.sampling):score(function() return #string.dump(print) end)
end
