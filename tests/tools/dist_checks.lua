-- dist_checks.lua: bodies of random actions, whose collectives XRUN_DIST_CHECK=1 compares.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "tiny",
  data     = { { path = "pairs.jsonl" } },
  chats    = { { path = "chats.jsonl" } },
  sums     = { { path = "sums.jsonl" } },
  template = "chatml",
  valid    = { fraction = 0.2 },
  sampling = { samples = 3, max_tokens = 4 },
  optim    = { lr = 1e-3, schedule = "constant" },
  batch    = { pairs = 3, sequences = 3, prompts = 2, max_tokens = 240 },
  steps    = 100,
  average  = true,
  differs  = false,                                          -- one rank calls a different collective
}

local policy    = xrun.policy(cfg.model)
local reference = policy:reference()
local pairs_, held = xrun.preference(cfg.data, policy, { template = cfg.template }):split(cfg.valid)
local talks = xrun.chat(cfg.chats, policy, { template = cfg.template })
local chats, other = talks:split { fraction = 0.02 }
local sums = xrun.prompts(cfg.sums, policy, { template = cfg.template })
local adamw     = xrun.adamw(policy, cfg.optim)
local ema       = cfg.average and xrun.ema(policy, { decay = 0.9 })

local function dpo(p)
  local chosen   = policy:logprob(p.chosen)   - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  return -(0.1 * (chosen - rejected)):log_sigmoid()
end
local function nll(t) return -policy:token_logprob(t) end
local function reinforce(r) return -policy:token_logprob(r) * r:spread(r.advantage) end
local function reward(s) return s.ids[1] % 5 end

local run = xrun.run(cfg, { policy = policy, adamw = adamw, ema = ema or nil })
local actions = {
  function() run:log(run:evaluate(held, dpo)) end,
  function() run:log(run:evaluate(other, nll, "chats")) end,
  function()
    if ema then run:log(ema:use(function() return run:evaluate(held, dpo, "ema") end)) end
  end,
  function(prefs) return policy:logprob(prefs) end,
  function(_, talk) return reference:token_logprob(talk) end,
  function(prefs) run:log(adamw:step(prefs, dpo)) end,
  function(_, talk) run:log(adamw:step(talk, nll)) end,
  function(prefs, talk) run:log(adamw:step { { prefs, dpo }, { talk, nll, weight = 0.1 } }) end,
  function(_, _, asked)
    local rollouts = policy:sample(asked, cfg.sampling):score(reward)
    rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
    run:log(adamw:step(rollouts, reinforce))
  end,
}
local done = 0
for step, prefs, talk, asked in run:steps({ pairs_, chats, sums }, cfg.batch) do
  if cfg.differs and step == 3 then
    actions[os.getenv("RANK") == "1" and 1 or 4](prefs, talk, asked)
  end
  for _ = 1, math.random(0, 3) do
    actions[math.random(#actions)](prefs, talk, asked)
    done = done + 1
  end
  run:log(adamw:step(prefs, dpo))
  done = done + 1
end
print("actions: " .. done)
