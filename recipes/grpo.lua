-- grpo.lua: Group Relative Policy Optimization (Shao et al. 2024, eq. 3): the mean over an answer's
-- tokens of -min(rho A, clip(rho, 1 - clip, 1 + clip) A) + beta KL, rho = pi / pi_old, A by group.
-- Step 0 prints ratio = 1 and kl = 0: the sampler's log-probs are the trainer's, bit for bit.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  clip     = 0.2,
  beta     = 0.04, kl = "k3",                                -- weight and estimator of the KL
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()                         -- frozen twin
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)
local kl_loss   = xrun.kl.loss(cfg.kl)                       -- k3: ref / pi - log(ref / pi) - 1

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function grpo(r)                                       -- one loss per answer, unreduced
  local logp    = policy:token_logprob(r)                    -- [R], one per token of the answers
  local ratio   = (logp - r.old_logprob):exp()
  local clipped = ratio:clamp(1 - cfg.clip, 1 + cfg.clip)
  local a       = r:spread(r.advantage)                      -- [n] -> [R]
  local kl      = kl_loss(logp, reference:token_logprob(r))
  local loss    = -(ratio * a):minimum(clipped * a) + cfg.beta * kl
  return { sequence = r:mean(loss) }, { ratio = ratio, kl = kl, clipped = clipped:ne(ratio) }
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = reward }  -- greedy, held-out
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  run:log(adamw:step(rollouts, grpo))
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
