-- expect: error Policy:sample: out of memory
local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "tasks.jsonl" } }, template = "chatml",
  batch = { prompts = 1 }, steps = 1 }
local policy = xrun.policy(cfg.model)
local run = xrun.run(cfg, { policy = policy })
for _, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  policy:sample(prompts, { samples = 2 ^ 31, max_tokens = 2 ^ 40 })
end
