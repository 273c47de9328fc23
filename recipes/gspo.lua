-- gspo.lua: Group Sequence Policy Optimization (Zheng et al. 2025, arXiv 2507.18071, eqs. 5 to 7):
-- one ratio per answer, s = (pi(y) / pi_old(y))^(1 / |y|), the geometric mean over its tokens, and
-- the loss -min(s A, clip(s, 1 - clip, 1 + clip_high) A). Step 0 prints ratio = 1: sampler and
-- trainer agree bit for bit. A mean over tokens moves little, so its clip is far below GRPO's 0.2.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  clip     = 3e-4, clip_high = 4e-4,                         -- the paper's
  updates  = { epochs = 1, groups = 8 },                     -- of each batch of rollouts
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local policy = xrun.policy(cfg.model)
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function gspo(r)                                       -- one loss per answer, unreduced
  local ratio   = r:mean(policy:token_logprob(r) - r.old_logprob):exp()      -- [R] -> [n]
  local clipped = ratio:clamp(1 - cfg.clip, 1 + cfg.clip_high)
  local loss    = -(ratio * r.advantage):minimum(clipped * r.advantage)
  return { sequence = loss }, { ratio = ratio, clipped = clipped:ne(ratio) }
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = reward }  -- greedy, held-out
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  for mini in rollouts:minibatches(cfg.updates) do run:log(adamw:step(mini, gspo)) end
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
