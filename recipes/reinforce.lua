-- reinforce.lua: REINFORCE (Williams 1992) with group baselines: -sum A log pi / sum |A| over the
-- tokens of the step, A = (reward - mean) / deviation of the group, so a common factor of all A
-- cancels. It has no ratio, so it is for one update per batch of rollouts; a second one is refused.
-- Step 0 prints path_on_policy = 1: the weights that sampled are those that are trained.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/sums.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 10 },
  sampling = { samples = 8, max_tokens = 24, temperature = 1.0 },
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 30,
}

local policy = xrun.policy(cfg.model)
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function reward(s) return xrun.rewards.number(s.text, s.answer) end

local function reinforce(r)                                  -- one loss per token, unreduced
  return xrun.reinforce(policy:token_logprob(r), r.advantage)
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.sampling.max_tokens, score = reward }  -- greedy, held-out
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  run:log(adamw:step(rollouts, reinforce))
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
