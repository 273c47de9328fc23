-- policy_losses.lua: the family of GRPO over sampled answers, chosen by `--set loss=NAME`.
-- rho = pi / pi_old of a token, clipped to [1 - clip, 1 + clip_high]; A the answer's advantage.
-- Longer than other recipes: one table in place of 7 copies of the loop; grpo.lua has GRPO itself.
-- Step 0 prints ratio = 1: the sampler's log-probs are the trainer's, bit for bit.
local xrun = require "xrun"

local cfg = xrun.config {
  loss     = "dapo",                                         -- a name in the table below
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  clip     = 0.2, clip_high = 0.28,                          -- gspo: 3e-4, 4e-4
  cispo_max = 5.0,                                           -- the largest weight of cispo
  dual     = 3.0,                                            -- ppo: bound of rho where A < 0
  overlong = 0,                                              -- tokens before the limit; 0: off
  beta     = 0.0, kl = "k3",                                 -- KL to the reference; 0: none
  entropy  = 0.0,                                            -- weight of the entropy bonus
  tis      = 0.0,                                            -- cap of importance weights; 0: off
  updates  = { epochs = 1, groups = 8 },                     -- of each batch of rollouts
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local function clip(rho) return rho:clamp(1 - cfg.clip, 1 + cfg.clip_high) end
local function clipped(rho, a) return -(rho * a):minimum(clip(rho) * a) end   -- PPO, eq. 7

-- x: logp, rho and a = A of each token [R], `more`, the KL and entropy terms of each token [R], and
-- weight(over), of truncated importance sampling: old_logprob against the sampler's.
local losses = {
  -- Liu et al. 2025, Dr. GRPO: no division by an answer's length or the group's deviation
  dr_grpo = function(x, r)
    return { sequence = r:sum(clipped(x.rho, x.a) + x.more) / cfg.sampling.max_tokens }
  end,
  -- Yu et al. 2025, DAPO, eq. 8: asymmetric clip, mean over all tokens
  dapo = function(x) return { token = clipped(x.rho, x.a) + x.more } end,
  -- Zheng et al. 2025, GSPO, eqs. 5, 7: one ratio an answer, the geometric mean of its tokens'
  gspo = function(x, r)
    local rho = r:mean(x.logp - r.old_logprob):exp()
    return { sequence = clipped(rho, r.advantage * x.weight("mean")) + r:mean(x.more) }
  end,
  -- MiniMax 2025, CISPO, eq. 4: the clipped ratio is a constant weight, so no gradient is lost
  cispo = function(x)
    return { token = -x.rho:detach():clamp_max(cfg.cispo_max) * x.a * x.logp + x.more }
  end,
  -- Ahmadian et al. 2024, RLOO, eq. 8, with the ratio of whole answers as in TRL
  rloo = function(x, r)
    local rho = r:sum(x.logp - r.old_logprob):exp()
    return { sequence = clipped(rho, r.advantage * x.weight("sum")) + r:mean(x.more) }
  end,
  -- Williams 1992: -sum A log p / sum |A| over the step's tokens; for one update per batch
  reinforce = function(x, r)
    return { token = x.weight("token") * xrun.reinforce(x.logp, r.advantage) + x.more }
  end,
  -- Ye et al. 2020, eq. 5: PPO with dual clip
  ppo = function(x) return { token = clipped(x.rho:clamp_max(cfg.dual), x.a) + x.more } end,
}
local unscaled = {
  dr_grpo = { scale = false }, rloo = { baseline = "leave_one_out", scale = false },
}

-- x = log pi - log ref; Schulman 2020, "Approximating KL divergence"
local kl_terms = {
  k1 = function(x) return x end,
  k2 = function(x) return x:square() / 2 end,
  k3 = function(x) return (-x):exp() + x - 1 end,
}

local function chosen(from, what, name)
  if from[name] then return from[name] end
  local names = {}
  for known in pairs(from) do names[#names + 1] = known end
  table.sort(names)
  error(("no %s is named %q; there are %s"):format(what, name, table.concat(names, ", ")))
end
local loss_of, kl_of = chosen(losses, "loss", cfg.loss), chosen(kl_terms, "KL term", cfg.kl)

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()                         -- frozen twin
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function right(s) return xrun.rewards.number(s.text, s.answer) end
local function reward(s)
  local long = 0
  if cfg.overlong > 0 then
    long = xrun.rewards.overlong(#s.ids, cfg.sampling.max_tokens, cfg.overlong)
  end
  return right(s) + long, { right = right(s), overlong = long }
end

local function objective(r)
  local head = policy:head(r, { entropy = cfg.entropy ~= 0 })
  local x    = { logp = head.logprob, more = 0 * head.logprob }
  x.weight   = function(over) return cfg.tis > 0 and r:truncated_ratio(cfg.tis, over) or 1 end
  x.a        = r:spread(r.advantage) * x.weight("token")
  x.rho      = (x.logp - r.old_logprob):exp()
  local metrics = { ratio = x.rho, clipped = clip(x.rho):ne(x.rho) }
  if cfg.beta ~= 0 then
    metrics.kl = kl_of(x.logp - reference:token_logprob(r))
    x.more     = x.more + cfg.beta * metrics.kl
  end
  if cfg.entropy ~= 0 then
    metrics.entropy = head.entropy
    x.more          = x.more - cfg.entropy * head.entropy
  end
  return loss_of(x, r), metrics
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local asking = { max_tokens = cfg.sampling.max_tokens, score = right }
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, asking)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward, { pass = 0 })
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group, unscaled[cfg.loss])
  if cfg.tis > 0 then rollouts.old_logprob = policy:token_logprob(rollouts) end
  for mini in rollouts:minibatches(cfg.updates) do run:log(adamw:step(mini, objective)) end
end
run:log(run:sample(policy, valid, 3, asking))
run:export(policy)
