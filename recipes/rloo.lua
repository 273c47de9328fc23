-- rloo.lua: REINFORCE Leave-One-Out (Ahmadian et al. 2024, arXiv 2402.14740, eq. 8): the reward of
-- an answer is reduced by beta KL (k1: the sum over its tokens of log pi - log ref); its baseline
-- is the mean of the others in its group. The loss is -min(R A, clip(R, 1 - clip, 1 + clip) A), R
-- the ratio of whole answers, as in TRL. Step 0 prints ratio = 1 and kl = 0, exactly.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  clip     = 0.2, beta = 0.05,                               -- weight of the KL in the reward
  updates  = { epochs = 1, groups = 8 },                     -- of each batch of rollouts
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()                         -- frozen twin
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function rloo(r)                                       -- one loss per answer, unreduced
  local ratio   = r:sum(policy:token_logprob(r) - r.old_logprob):exp()       -- [R] -> [n]
  local clipped = ratio:clamp(1 - cfg.clip, 1 + cfg.clip)
  local loss    = -(ratio * r.advantage):minimum(clipped * r.advantage)
  return { sequence = loss }, { ratio = ratio, clipped = clipped:ne(ratio), kl = r.kl }
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = reward }  -- greedy, held-out
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.kl = rollouts:sum(xrun.kl.k1(rollouts.old_logprob, reference:token_logprob(rollouts)))
  local total = rollouts.reward - cfg.beta * rollouts.kl
  rollouts.advantage = xrun.group_advantage(total, rollouts.group,
                                            { baseline = "leave_one_out", scale = false })
  for mini in rollouts:minibatches(cfg.updates) do run:log(adamw:step(mini, rloo)) end
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
