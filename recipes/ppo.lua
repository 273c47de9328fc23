-- ppo.lua: PPO without a critic, with dual clip (Schulman et al. 2017, arXiv 1707.06347, eqs. 7, 9;
-- Ye et al. 2020, arXiv 1912.09729, eq. 5): the mean over all tokens of -min(rho A, clip(rho) A),
-- where A < 0 at most -dual A, minus entropy times the entropy. Step 0 prints ratio = 1. tis > 0
-- weights tokens by min(pi_old / sampler, tis), for bf16 or older answers (Yao et al. 2025).
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  clip     = 0.2, dual = 3.0, entropy = 0.0, tis = 0.0,      -- tis: cap of the weight; 0: off
  updates  = { epochs = 1, groups = 8 },                     -- of each batch of rollouts
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local policy = xrun.policy(cfg.model)
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function ppo(r)                                        -- one loss per token, unreduced
  local head     = policy:head(r, { entropy = true })
  local ratio, a = (head.logprob - r.old_logprob):exp(), r:spread(r.advantage)  -- [R]
  local clipped  = ratio:clamp(1 - cfg.clip, 1 + cfg.clip)
  local loss     = -(ratio:clamp_max(cfg.dual) * a):minimum(clipped * a)
  local weight   = cfg.tis > 0 and r:truncated_ratio(cfg.tis) or 1
  return weight * loss - cfg.entropy * head.entropy,
         { ratio = ratio, clipped = clipped:ne(ratio), entropy = head.entropy }
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = reward }  -- greedy, held-out
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  if cfg.tis > 0 then rollouts.old_logprob = policy:token_logprob(rollouts) end
  for mini in rollouts:minibatches(cfg.updates) do run:log(adamw:step(mini, ppo)) end
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
