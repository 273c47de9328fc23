-- history_epochs.lua: two epochs of grpo.lua's loop without evaluations, for history_epochs.py: the
-- answers of the first epoch are drafts of the second one's.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0, draws = "row", drafts = true },
  clip     = 0.2,
  beta     = 0.04,
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  epochs   = 2,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()
local train     = xrun.prompts(cfg.data, policy)
local adamw     = xrun.adamw(policy, cfg.optim)

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function grpo(r)
  local logp  = policy:token_logprob(r)
  local ratio = (logp - r.old_logprob):exp()
  local a     = r:spread(r.advantage)
  local loss  = -(ratio * a):minimum(ratio:clamp(1 - cfg.clip, 1 + cfg.clip) * a)
  local x     = reference:token_logprob(r) - logp
  local kl    = x:exp() - x - 1
  return { sequence = r:mean(loss + cfg.beta * kl) }, { ratio = ratio, kl = kl }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for _, prompts in run:steps(train, cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  run:log(adamw:step(rollouts, grpo))
end
