-- joint.lua: the mean of -log sigmoid(beta (r_c - r_r)) over pairs + share times the mean of -log p
-- over tokens of chats, in every step. Step 0 prints dpo = ln 2 = 0.6931 and accuracy = 0.5.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  chats = { { path = "recipes/data/chats.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 0.1,
  share = 0.1,                                               -- weight of the chats' loss
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, sequences = 8, max_tokens = 4096 },
  steps = 16,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()                         -- frozen twin
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local chats, held  = xrun.chat(cfg.chats, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function dpo(p)                                        -- one loss per pair
  local chosen   = policy:logprob(p.chosen)   - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin   = cfg.beta * (chosen - rejected)
  local loss     = -margin:log_sigmoid()
  return loss, { dpo = loss, margin = margin, accuracy = (margin:sign() + 1) / 2 }
end
local function nll(t) return -policy:token_logprob(t) end    -- one loss per trained token

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, prefs, talk in run:steps({ train, chats }, cfg.batch) do
  if step % cfg.valid.every == 0 then
    run:log(run:evaluate(valid, dpo)); run:log(run:evaluate(held, nll, "chats"))
  end
  run:log(adamw:step({ { prefs, dpo }, { talk, nll, weight = cfg.share } }))
end
run:log(run:evaluate(valid, dpo)); run:log(run:evaluate(held, nll, "chats"))
run:export(policy)
