-- pretrain.lua: -log p(x_t | x_<t), the mean over plain text, cut into windows that overlap by one
-- token, so that every token but a document's first is a target exactly once per epoch.
local xrun = require "xrun"

local cfg = xrun.config {
  model      = { layers = 4, hidden = 256,                   -- random weights, or a folder
                 tokenizer = "recipes/data/tokenizer" },     -- 2,048 pieces
  data       = { { path = "recipes/data/text.txt" } },       -- blank lines end a document
  max_length = 256,                                          -- tokens of a window
  shuffle    = true,                                         -- windows, not documents
  valid      = { fraction = 0.1, every = 10 },
  optim      = { lr = 2e-3, warmup = 0.1, schedule = "cosine", weight_decay = 0.1 },
  batch      = { tokens = 2048, max_tokens = 2048 },         -- per step, per micro-batch
  steps      = 50,
}

local policy = xrun.policy(cfg.model)
local text   = xrun.text(cfg.data, policy)
local train, valid = text:split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function nll(t) return -policy:token_logprob(t) end    -- one loss per token

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, nll)) end
  run:log(adamw:step(batch, nll))
end
run:log(run:evaluate(valid, nll))
run:export(policy)
