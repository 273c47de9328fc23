-- simpo.lua: -log sigmoid(beta (l_c / |c| - l_r / |r|) - gamma), l = log pi: SimPO (Meng et al.
-- 2024, eq. 6), without a reference. With beta = 0 the loss is log(1 + exp(gamma)).
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 2.0,
  gamma = 1.0,                                               -- target margin
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,
}

local policy    = xrun.policy(cfg.model)
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function simpo(p)                                      -- one loss per pair
  local chosen   = policy:logprob(p.chosen) / p.chosen.length
  local rejected = policy:logprob(p.rejected) / p.rejected.length
  local margin   = cfg.beta * (chosen - rejected)
  return -(margin - cfg.gamma):log_sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2,
    reward_chosen = cfg.beta * chosen, reward_rejected = cfg.beta * rejected,
  }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, simpo)) end
  run:log(adamw:step(batch, simpo))
end
run:log(run:evaluate(valid, simpo))
run:export(policy)
