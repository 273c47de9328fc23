-- kto.lua: KTO (Ethayarajh et al. 2024, eqs. 7, 8): lambda (1 - sigmoid(s beta (r - z))), s = 1 for
-- good answers and -1 for bad ones, r = log pi - log ref, z the mean r of other prompts' answers.
-- Step 0 prints loss = lambda / 2, because policy == reference.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/feedback.jsonl" } },      -- rows of an answer and a label
  valid = { fraction = 0.1, every = 8, by = "prompt" },
  beta  = 0.1,
  good  = 1.0, bad = 1.0,                                    -- lambda of each label
  optim = { lr = 1e-5, warmup = 0.1, clip = 1.0 },
  batch = { sequences = 16, max_tokens = 4096 },
  steps = 16,
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()                         -- frozen twin
local train, valid = xrun.feedback(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)
local run       = xrun.run(cfg, { policy = policy, adamw = adamw })

local function kto(f)                                        -- one loss per answer
  local r      = policy:logprob(f) - reference:logprob(f)
  local value  = (cfg.beta * (2 * f.label - 1) * (r - (run.state.z or 0))):sigmoid()
  local lambda = f.label * cfg.good + (1 - f.label) * cfg.bad
  local reward = cfg.beta * r
  return { sequence = lambda * (1 - value) }, {
    value = value, reward = reward,
    reward_desirable   = { reward, f.label },                -- the mean over good answers alone
    reward_undesirable = { reward, 1 - f.label },
  }
end

for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, kto)) end
  if batch.size > 1 then                                     -- z couples rows: made here
    local other = batch:mismatched()
    local r     = policy:logprob(other) - reference:logprob(other)
    run.state.z = math.max(0, run:mean(r:mean()):item())
  end
  local good, all = (batch.label * batch.weight):sum():item(), batch.weight:sum():item()
  local logged = adamw:step(batch, kto)
  run:log(logged); run:log { ["train/kl"] = run.state.z or 0 }
  if good > 0 and good < all then                            -- both labels are in this batch
    run:log { ["train/margin"] = logged.reward_desirable - logged.reward_undesirable }
  end
end
run:log(run:evaluate(valid, kto))
run:export(policy)
