-- dpo_norm.lua: -log sigmoid(beta (r_c / |c| - r_r / |r|)), r = log pi - log ref: DPO over means
-- per token (Lambert et al. 2024, Tulu 3). Step 0: loss = ln 2, accuracy = 0.5.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 5.0,                                               -- of means per token
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function dpo_norm(p)                                   -- one loss per pair
  local chosen   = policy:logprob(p.chosen)   - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin   = cfg.beta * (chosen / p.chosen.length - rejected / p.rejected.length)
  return -margin:log_sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2,
    reward_chosen = cfg.beta * chosen, reward_rejected = cfg.beta * rejected,
  }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, dpo_norm)) end
  run:log(adamw:step(batch, dpo_norm))
end
run:log(run:evaluate(valid, dpo_norm))
run:export(policy)
