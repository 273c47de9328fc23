-- dr_grpo.lua: GRPO Done Right (Liu et al. 2025, arXiv 2503.20783, section 3.2): the sum over an
-- answer's tokens of -min(rho A, clip(rho, 1 - clip, 1 + clip) A), divided by the longest possible
-- answer; A = reward - mean of the group. Neither the length of an answer nor the deviation of its
-- group changes its weight. Step 0 prints ratio = 1: sampler and trainer agree bit for bit.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  clip     = 0.2,
  updates  = { epochs = 1, groups = 8 },                     -- of each batch of rollouts
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local policy = xrun.policy(cfg.model)
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function dr_grpo(r)                                    -- one loss per answer, unreduced
  local ratio   = (policy:token_logprob(r) - r.old_logprob):exp()
  local clipped = ratio:clamp(1 - cfg.clip, 1 + cfg.clip)
  local a       = r:spread(r.advantage)                      -- [n] -> [R]
  local loss    = r:sum(-(ratio * a):minimum(clipped * a)) / cfg.sampling.max_tokens
  return { sequence = loss }, { ratio = ratio, clipped = clipped:ne(ratio) }
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = reward }  -- greedy, held-out
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group, { scale = false })
  for mini in rollouts:minibatches(cfg.updates) do run:log(adamw:step(mini, dr_grpo)) end
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
