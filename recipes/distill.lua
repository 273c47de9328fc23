-- distill.lua: (1 - c) T^2 KL(q_T || p_T) - c log p(x_t | x_<t), the mean over the tokens of plain
-- text (Hinton et al. 2015, section 2): q is the teacher's softmax, p the student's, their logits
-- divided by the temperature T. Both have one tokenizer. kd is 0 where the models are equal.
local xrun = require "xrun"

local cfg = xrun.config {
  model      = { layers = 4, hidden = 256,                   -- random weights, or a folder
                 tokenizer = "smollm2-135m-instruct" },      -- the teacher's
  teacher    = "smollm2-135m-instruct",                      -- a folder, or one of `xrun models`
  data       = { { path = "recipes/data/text.txt" } },       -- blank lines end a document
  max_length = 256,                                          -- tokens of a window
  valid      = { fraction = 0.1, every = 8 },
  kd         = { loss = "full", temperature = 2 },           -- over the whole vocabulary
  ce         = 0.1,                                          -- c, the share of the cross entropy
  optim      = { lr = 1e-3, warmup = 0.1, schedule = "cosine" },
  batch      = { tokens = 2048, max_tokens = 2048 },         -- per step, per micro-batch
  steps      = 24,
}

local student = xrun.policy(cfg.model)
local teacher = xrun.frozen(cfg.teacher)
local text    = xrun.text(cfg.data, student)
local train, valid = text:split(cfg.valid)
local adamw   = xrun.adamw(student, cfg.optim)

local function distill(t)                                    -- one loss per token
  local kd = xrun.kd(t, student, teacher, cfg.kd)
  local ce = -student:token_logprob(t)
  return (1 - cfg.ce) * kd + cfg.ce * ce, { kd = kd, ce = ce }
end

local run = xrun.run(cfg, { policy = student, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, distill)) end
  run:log(adamw:step(batch, distill))
end
run:log(run:evaluate(valid, distill))
run:export(student)
