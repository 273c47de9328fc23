-- sft.lua: -log p(x_t | x_<t), the weighted mean over the trained tokens of a mixture: fine-tuning.
-- Only assistant turns are trained; packing and micro-batching do not change the loss.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = {                                               -- weight: a source's share of rows
    { path = "recipes/data/chats.jsonl", weight = 0.7, name = "chats" },
    { path = "recipes/data/tasks.jsonl", weight = 0.3, name = "tasks" },
  },
  template = "auto",                                         -- the tokenizer's own, or a file
  valid    = { fraction = 0.1, every = 8 },
  mixture  = { stop = "all" },                               -- until every source is used up
  optim    = { lr = 2e-5, warmup = 0.1, schedule = "cosine" },
  batch    = { sequences = 16, max_tokens = 4096 },
  steps    = 24,
}

local policy = xrun.policy(cfg.model)
local chats  = xrun.chat(cfg.data, policy, { template = cfg.template })
local train, valid = chats:split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function nll(t) return -policy:token_logprob(t) end    -- one loss per trained token

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, nll)) end
  run:log(adamw:step(batch, nll))
end
run:log(run:evaluate(valid, nll))
run:export(policy)
