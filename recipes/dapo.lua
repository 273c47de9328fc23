-- dapo.lua: DAPO (Yu et al. 2025, arXiv 2503.14476, eqs. 8 to 13): the mean over all tokens of
-- -min(rho A, clip(rho, 1 - clip, 1 + clip_high) A) over groups of varied rewards alone, with a
-- penalty of long answers in the reward. Step 0 prints ratio = 1: sampler and trainer agree.
local xrun = require "xrun"

local cfg = xrun.config {
  model     = "smollm2-135m-instruct",                       -- a folder, or one of `xrun models`
  data      = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid     = { fraction = 0.1, every = 10 },
  sampling  = { samples = 8, max_tokens = 24, temperature = 1.0 },
  clip      = 0.2, clip_high = 0.28,                         -- the higher bound explores
  overlong  = 4,                                             -- the last tokens, which cost up to 1
  optim     = { lr = 1e-5, schedule = "constant" },
  batch     = { groups = 8, max_tokens = 4096, fold_min = 16 },
  steps     = 40,
}

local policy = xrun.policy(cfg.model)
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function right(s) return xrun.rewards.number(s.text, s.answer) end
local function reward(s)                                     -- eq. 13: soft overlong punishment
  local long = xrun.rewards.overlong(#s.ids, cfg.sampling.max_tokens, cfg.overlong)
  return right(s) + long, { right = right(s), overlong = long }
end

local function dapo(r)                                       -- eq. 8: one loss per token, unreduced
  local ratio   = (policy:token_logprob(r) - r.old_logprob):exp()
  local a       = r:spread(r.advantage)                      -- [n] -> [R]
  local clipped = ratio:clamp(1 - cfg.clip, 1 + cfg.clip_high)
  return -(ratio * a):minimum(clipped * a), { ratio = ratio, clipped = clipped:ne(ratio) }
end

local source = xrun.rollouts { prompts = train, sampling = cfg.sampling, reward = reward, pass = 0 }
local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = right }  -- greedy, held-out
for step, rollouts in run:steps(source, cfg.batch) do        -- eq. 11: groups of varied rewards
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)  -- eq. 9
  run:log(adamw:step(rollouts, dapo))
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
