-- sft_dpo.lua: -log p(token) over chats, then -log sigmoid(beta (r_c - r_r)) over pairs: DPO
-- (Rafailov et al. 2023, eq. 7) against the first phase's weights, starting at loss = ln 2.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  chats = { { path = "recipes/data/chats.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 0.1,
  optim = { lr = 1e-5, warmup = 0.1 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,                                                -- of the second phase
  sft   = { lr = 2e-5, steps = 8 },
}

local policy = xrun.policy(cfg.model)
local chats  = xrun.chat(cfg.chats, policy)
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local first  = xrun.adamw(policy, { lr = cfg.sft.lr })
local second = xrun.adamw(policy, cfg.optim)
local run    = xrun.run(cfg, { policy = policy, first = first, second = second })
local function nll(t) return -policy:token_logprob(t) end    -- one loss per trained token
for _, batch in run:steps(chats, { sequences = 8, max_tokens = 4096, steps = cfg.sft.steps }) do
  run:log(first:step(batch, nll))
end

local reference = policy:reference()                         -- the weights as they are now
local function dpo(p)                                        -- one loss per pair
  local chosen   = policy:logprob(p.chosen)   - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin   = cfg.beta * (chosen - rejected)
  return -margin:log_sigmoid(), { margin = margin, accuracy = (margin:sign() + 1) / 2 }
end
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, dpo)) end
  run:log(second:step(batch, dpo))
end
run:log(run:evaluate(valid, dpo))
run:export(policy)
