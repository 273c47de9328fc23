-- opd.lua: on-policy distillation (Agarwal et al. 2024; Lu 2025). The student answers, the teacher
-- scores each chunk c: -rho (log T(c) - log pi_old(c)), rho = pi / pi_old, whose gradient is that
-- of KL(pi || T) on the student's own answers. A chunk is tokens of both tokenizers that spell the
-- same bytes; with one tokenizer it is a token. Step 0 prints ratio = 1.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "runs/dpo/hf",                                  -- recipes/README.md says how
  teacher  = "smollm2-135m-instruct",                        -- any tokenizer and template
  data     = { { path = "recipes/data/preferences.jsonl" } },  -- their prompts
  valid    = { fraction = 0.04, every = 10 },
  sampling = { samples = 4, max_tokens = 48, temperature = 1.0 },
  optim    = { lr = 2e-5, warmup = 0.1, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096 },
  steps    = 20,
}

local student = xrun.policy(cfg.model)
local teacher = xrun.frozen(cfg.teacher)
local train, valid = xrun.prompts(cfg.data, student):split(cfg.valid)
local adamw   = xrun.adamw(student, cfg.optim)

local function opd(r)                                        -- one loss per chunk of the answers
  local gain  = teacher:chunk_logprob(r) - r:chunk_sum(r.old_logprob)  -- the reverse KL's terms
  local ratio = r:chunk_sum(student:token_logprob(r) - r.old_logprob):exp()
  return { chunk = -(ratio * gain) }, { ratio = ratio, kl = -gain }
end

local run = xrun.run(cfg, { policy = student, adamw = adamw })
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(student, valid, 3)) end
  run:log(adamw:step(student:sample(prompts, cfg.sampling):align(teacher), opd))
end
run:log(run:sample(student, valid, 3))
run:export(student)
