-- reward.lua: a reward model (Bradley and Terry 1952; Ouyang et al. 2022): -log sigmoid(s_c - s_r).
-- Step 0 prints loss = ln 2 = 0.6931 and accuracy = 0.5, because the value head starts at zero.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,
}

local policy = xrun.policy(cfg.model)
local scorer = xrun.scorer(policy)                           -- a value head on the last token
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(scorer, cfg.optim)                 -- the head and the policy's weights

local function bradley_terry(p)                              -- one loss per pair
  local chosen, rejected = scorer:score(p.chosen), scorer:score(p.rejected)
  local margin = chosen - rejected
  return -margin:log_sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2,
    score_chosen = chosen, score_rejected = rejected,
  }
end

local run = xrun.run(cfg, { scorer = scorer, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, bradley_terry)) end
  run:log(adamw:step(batch, bradley_terry))
end
run:log(run:evaluate(valid, bradley_terry))
run:export(scorer)                                           -- a classifier of one label
