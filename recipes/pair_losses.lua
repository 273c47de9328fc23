-- pair_losses.lua: the family of DPO, one loss per pair of answers, chosen by `--set loss=NAME`.
-- c, r = log pi - log ref of the chosen and the rejected answer, h = beta (c - r), s = sigmoid.
-- Longer than other recipes: one table in place of 13 copies of the loop. The default is ipo, since
-- dpo.lua has DPO: IPO's margin has a finite target, 1 / (2 beta), where DPO's grows without end.
local xrun = require "xrun"

local cfg = xrun.config {
  loss  = "ipo",                                             -- a name in the table below
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 0.1,                                               -- dpo_norm: about 5
  eps   = 0.1,                                               -- share of wrong labels, below 0.5
  alpha = 1.0,                                               -- weight of the SFT term of rpo
  tau   = 0.05,                                              -- temperature of discopop
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,
}

local function s(x) return x:sigmoid() end
local function log_s(x) return x:log_sigmoid() end

-- x: c, r, h, and the means per trained token c / |c| - r / |r| (mean), -log pi_c / |c| (nll).
local losses = {
  -- Azar et al. 2023, eq. 17, over means per token as its authors compute it
  ipo = function(x) return (x.mean - 1 / (2 * cfg.beta)):square(), x.mean end,
  -- Zhao et al. 2023, SLiC-HF, over log-ratios as in Liu et al. 2023, RSO
  hinge = function(x) return (1 - x.h):relu() end,
  -- Mitchell 2023, conservative DPO, for labels that are wrong with probability eps
  cdpo = function(x) return -(1 - cfg.eps) * log_s(x.h) - cfg.eps * log_s(-x.h) end,
  -- Chowdhury et al. 2024, unbiased under labels flipped with probability eps
  robust = function(x)
    return (cfg.eps * log_s(-x.h) - (1 - cfg.eps) * log_s(x.h)) / (1 - 2 * cfg.eps)
  end,
  -- Lambert et al. 2024, Tulu 3: DPO over means per token
  dpo_norm = function(x) local h = cfg.beta * x.mean; return -log_s(h), h end,
  -- Pang et al. 2024, iterative RPO: DPO with an SFT term
  rpo = function(x) return -log_s(x.h) + cfg.alpha * x.nll end,
  -- D'Oosterlinck et al. 2024, eqs. 7, 8: chosen up and rejected down; both down, rejected more
  apo_zero = function(x) return 1 - s(cfg.beta * x.c) + s(cfg.beta * x.r) end,
  apo_down = function(x) return s(cfg.beta * x.c) + 1 - s(x.h) end,
  -- Ji et al. 2024, eq. 16: KL of (s(h), s(-h)) from (1 - eps, eps)
  exo_pair = function(x)
    local good, bad = log_s(x.h), log_s(-x.h)
    return s(x.h) * (good - math.log(1 - cfg.eps)) + s(-x.h) * (bad - math.log(cfg.eps))
  end,
  -- Chen et al. 2024, noise contrastive alignment of two answers
  nca_pair = function(x)
    local c, r = cfg.beta * x.c, cfg.beta * x.r
    return -log_s(c) - 0.5 * log_s(-c) - 0.5 * log_s(-r)
  end,
  -- Jung et al. 2024, as in TRL's DPOTrainer: without the paper's reward shift, a running mean
  bco_pair = function(x) return -log_s(cfg.beta * x.c) - log_s(-cfg.beta * x.r) end,
  -- Wu et al. 2024, eq. 4.7 with win probability 1 for the chosen answer
  sppo_hard = function(x)
    return (x.c - 0.5 / cfg.beta):square() + (x.r + 0.5 / cfg.beta):square()
  end,
  -- Lu et al. 2024, eq. 5: logistic where h < 0, exponential where h > 0
  discopop = function(x)
    local blend = s(x.h / cfg.tau)
    return -log_s(x.h) * (1 - blend) + (-x.h):exp() * blend
  end,
}
local loss_of = losses[cfg.loss]
if not loss_of then
  local names = {}
  for name in pairs(losses) do names[#names + 1] = name end
  table.sort(names)
  error(("no loss is named %q; there are %s"):format(cfg.loss, table.concat(names, ", ")))
end

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()                         -- frozen twin
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function objective(p)                                  -- one loss per pair, unreduced
  local pi_c, pi_r   = policy:logprob(p.chosen), policy:logprob(p.rejected)
  local ref_c, ref_r = reference:logprob(p.chosen), reference:logprob(p.rejected)
  local c, r = pi_c - ref_c, pi_r - ref_r
  local h    = cfg.beta * (c - r)
  local nll  = -pi_c / p.chosen.length
  local mean = c / p.chosen.length - r / p.rejected.length
  local loss, margin = loss_of { c = c, r = r, h = h, mean = mean, nll = nll }
  margin = margin or h                                       -- ipo, dpo_norm: per token
  return loss, {
    margin = margin, accuracy = (margin:sign() + 1) / 2, nll = nll,
    margin_policy = pi_c - pi_r, margin_reference = ref_c - ref_r,
    reward_chosen = cfg.beta * c, reward_rejected = cfg.beta * r,
  }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, objective)) end
  run:log(adamw:step(batch, objective))
end
run:log(run:evaluate(valid, objective))
run:export(policy)
