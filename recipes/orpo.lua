-- orpo.lua: -l_c - lambda log sigmoid(o_c - o_r), o = log(p / (1 - p)), l = log p, mean per token:
-- ORPO (Hong et al. 2024, eqs. 6, 7), without a reference. Lambda = 0 is SFT of the chosen side.
local xrun = require "xrun"

local cfg = xrun.config {
  model  = "smollm2-135m-instruct",                          -- a folder, or one of `xrun models`
  data   = { { path = "recipes/data/preferences.jsonl" } },
  valid  = { fraction = 0.1, every = 8 },
  lambda = 0.1,
  optim  = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch  = { pairs = 8, max_tokens = 4096 },
  steps  = 16,
}

local policy    = xrun.policy(cfg.model)
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function log_odds(l) return l - (-l:expm1()):log() end -- log(p / (1 - p)), p = exp(l) < 1

local function orpo(p)                                       -- one loss per pair
  local chosen   = policy:logprob(p.chosen) / p.chosen.length
  local rejected = policy:logprob(p.rejected) / p.rejected.length
  local margin   = log_odds(chosen) - log_odds(rejected)
  return -chosen - cfg.lambda * margin:log_sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2, nll = -chosen,
  }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, orpo)) end
  run:log(adamw:step(batch, orpo))
end
run:log(run:evaluate(valid, orpo))
run:export(policy)
