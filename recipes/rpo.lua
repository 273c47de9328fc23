-- rpo.lua: -log sigmoid(beta (r_c - r_r)) - alpha l_c / |c|, l = log pi, r = l - log ref: DPO with
-- an SFT term (Pang et al. 2024, iterative RPO). Step 0: ln 2 plus alpha times the chosen NLL.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 0.1,
  alpha = 1.0,
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function rpo(p)                                        -- one loss per pair
  local logprob  = policy:logprob(p.chosen)
  local chosen   = logprob - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin   = cfg.beta * (chosen - rejected)
  local nll      = -logprob / p.chosen.length
  return -margin:log_sigmoid() + cfg.alpha * nll, {
    margin = margin, accuracy = (margin:sign() + 1) / 2, nll = nll,
    reward_chosen = cfg.beta * chosen, reward_rejected = cfg.beta * rejected,
  }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, rpo)) end
  run:log(adamw:step(batch, rpo))
end
run:log(run:evaluate(valid, rpo))
run:export(policy)
