-- cispo.lua: CISPO of MiniMax-M1 (2025, arXiv 2506.13585, eqs. 4, 5): the mean over all tokens of
-- -sg(min(rho, cap)) A log pi, rho = pi / pi_old. sg stops the gradient: the clipped ratio is a
-- constant weight, so no token loses its gradient as it does in PPO. As in the paper, there is no
-- lower bound. Step 0 prints ratio = 1: sampler and trainer agree bit for bit.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  cap      = 5.0,                                            -- the largest weight of a token
  updates  = { epochs = 1, groups = 8 },                     -- of each batch of rollouts
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local policy = xrun.policy(cfg.model)
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function cispo(r)                                      -- one loss per token, unreduced
  local logp    = policy:token_logprob(r)                    -- [R]
  local ratio   = (logp - r.old_logprob):exp():detach()
  local weight  = ratio:clamp_max(cfg.cap)
  return -weight * r:spread(r.advantage) * logp, { ratio = ratio, clipped = weight:ne(ratio) }
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = reward }  -- greedy, held-out
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  for mini in rollouts:minibatches(cfg.updates) do run:log(adamw:step(mini, cispo)) end
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
