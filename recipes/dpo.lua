-- dpo.lua: -log sigmoid(beta (r_c - r_r)), r = log pi - log ref: DPO (Rafailov et al. 2023, eq. 7).
-- Step 0 prints loss = ln 2 = 0.6931 and accuracy = 0.5, because policy == reference.
local xrun = require "xrun"

local cfg = xrun.config {
  model   = "smollm2-135m-instruct",                         -- a folder, or one of `xrun models`
  data    = { { path = "recipes/data/preferences.jsonl", keep = { "prompt", "answer" } } },
  valid   = { fraction = 0.1, every = 8 },
  beta    = 0.1,
  optim   = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch   = { pairs = 8, max_tokens = 4096 },
  steps   = 16,                                              -- more steps cost right answers
  answers = 128,                                             -- tokens of a greedy answer; 0: none
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()                         -- frozen twin
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function dpo(p)                                        -- one loss per pair, unreduced
  local pi_c, pi_r   = policy:logprob(p.chosen), policy:logprob(p.rejected)
  local ref_c, ref_r = reference:logprob(p.chosen), reference:logprob(p.rejected)
  local chosen, rejected = pi_c - ref_c, pi_r - ref_r
  local margin = cfg.beta * (chosen - rejected)
  return -margin:log_sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2,     -- a tie counts half
    margin_policy = pi_c - pi_r, margin_reference = ref_c - ref_r,
    reward_chosen = cfg.beta * chosen, reward_rejected = cfg.beta * rejected,
  }
end

local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
local sample_options = { max_tokens = cfg.answers, score = "answer" }  -- `answer` as whole words
for step, batch in run:steps(train, cfg.batch) do
  if step == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, dpo)) end
  run:log(adamw:step(batch, dpo))
end
run:log(run:evaluate(valid, dpo))
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
