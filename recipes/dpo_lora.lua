-- dpo_lora.lua: -log sigmoid(beta (r_c - r_r)), r = log pi - log ref: DPO (Rafailov et al. 2023,
-- eq. 7) with adapters W + (alpha / rank) B A (Hu et al. 2021); the reference is W. Step 0: ln 2.
local xrun = require "xrun"

local cfg = xrun.config {
  model = "smollm2-135m-instruct",                           -- a folder, or one of `xrun models`
  data  = { { path = "recipes/data/preferences.jsonl" } },
  valid = { fraction = 0.1, every = 8 },
  beta  = 0.1,
  lora  = { rank = 16, alpha = 32, targets = { "q_proj", "k_proj", "v_proj", "o_proj" } },
  optim = { lr = 2e-4, warmup = 0.1, clip = 1.0 },
  batch = { pairs = 8, max_tokens = 4096 },
  steps = 16,
}

local policy    = xrun.policy(cfg.model)                     -- config.lora freezes its weights
local reference = policy:reference()                         -- shares them, without the adapter
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw     = xrun.adamw(policy, cfg.optim)

local function dpo_lora(p)                                   -- one loss per pair
  local chosen   = policy:logprob(p.chosen)   - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin   = cfg.beta * (chosen - rejected)
  return -margin:log_sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2,
    reward_chosen = cfg.beta * chosen, reward_rejected = cfg.beta * rejected,
  }
end

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:evaluate(valid, dpo_lora)) end
  run:log(adamw:step(batch, dpo_lora))
end
run:log(run:evaluate(valid, dpo_lora))
run:export(policy)                                           -- merged in hf/, alone in hf/adapter/
