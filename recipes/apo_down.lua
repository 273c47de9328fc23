-- apo_down.lua: sigmoid(beta r_c) + 1 - sigmoid(beta (r_c - r_r)), r = log pi - log ref: APO-down
-- (D'Oosterlinck et al. 2024, eq. 8): both answers are worse than the policy's. Step 0: loss = 1.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 0.1,
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function apo_down(p)                                   -- one loss per pair
  local chosen   = policy:logprob(p.chosen)   - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin   = cfg.beta * (chosen - rejected)
  return (cfg.beta * chosen):sigmoid() + 1 - margin:sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2,
    reward_chosen = cfg.beta * chosen, reward_rejected = cfg.beta * rejected,
  }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, apo_down)) end
  run:log(adamw:step(batch, apo_down))
end
run:log(run:evaluate(valid, apo_down))
run:export(policy)
