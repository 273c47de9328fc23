-- grpo_step.lua: GRPO as TRL's trainer has it by default (DAPO's loss, no KL), for grpo_peer.py.
-- A reward that random weights earn: the share of answer tokens with an even id.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "tiny",
  data     = { { path = "prompts.jsonl" } },
  sampling = { samples = 8, max_tokens = 64, temperature = 1.0 },
  clip     = 0.2,
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 4, max_tokens = 4096 },
  shuffle  = false,
  steps    = 6,
}

local policy = xrun.policy(cfg.model)
local train  = xrun.prompts(cfg.data, policy)
local adamw  = xrun.adamw(policy, cfg.optim)

local function reward(s)
  local even = 0
  for _, id in ipairs(s.ids) do even = even + (1 - id % 2) end
  return even / #s.ids
end

local function grpo(r)
  local ratio = (policy:token_logprob(r) - r.old_logprob):exp()
  local a     = r:spread(r.advantage)
  return -(ratio * a):minimum(ratio:clamp(1 - cfg.clip, 1 + cfg.clip) * a), { ratio = ratio }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for _, prompts in run:steps(train, cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  run:log(adamw:step(rollouts, grpo))
end
