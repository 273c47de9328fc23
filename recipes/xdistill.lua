-- xdistill.lua: distillation across tokenizers (X-Token, arXiv 2605.21699, its GOLD form). A chunk
-- is spans of student and teacher tokens that spell the same bytes, p and q their geometric means:
-- sum of q (log q - log p) over common tokens, plus sum |sorted p - sorted q| over the others.
local xrun = require "xrun"

local cfg = xrun.config {
  model   = { layers = 4, hidden = 256,                      -- random weights, or a folder
              tokenizer = "recipes/data/tokenizer" },        -- 2,048 pieces
  teacher = "smollm2-135m-instruct",                         -- another tokenizer than the student's
  data    = { { path = "recipes/data/text.txt" } },          -- blank lines end a document
  valid   = { fraction = 0.1, every = 25 },
  kd      = { loss = "gold", temperature = 1 },              -- xrun explain kd lists the others
  ce      = 0.1,                                             -- weight of the text's own tokens
  optim   = { lr = 2e-3, warmup = 0.1, schedule = "cosine" },
  batch   = { sequences = 8, max_tokens = 4096 },
  steps   = 100,
}

local student = xrun.policy(cfg.model)
local teacher = xrun.frozen(cfg.teacher)
local texts   = xrun.text(cfg.data, student):align(teacher)  -- chunks of both tokenizers, cached
local train, valid = texts:split(cfg.valid)
local adamw   = xrun.adamw(student, cfg.optim)

local function distill(t)                                    -- one loss per chunk, one per token
  local kd, ce = xrun.kd(t, student, teacher, cfg.kd), -student:token_logprob(t)
  return { chunk = kd, token = cfg.ce * ce }, { kd = kd, ce = ce }
end

local run = xrun.run(cfg, { policy = student, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, distill)) end
  run:log(adamw:step(batch, distill))
end
run:log(run:evaluate(valid, distill))
run:export(student)
