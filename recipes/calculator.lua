-- calculator.lua: GRPO (grpo.lua has the equation) over conversations: the policy learns to call a
-- calculator. Calls are read in the chat template's form; their results are context, not trained.
-- Step 0 prints ratio = 1: the log-probs of every turn are the trainer's, bit for bit.
local xrun = require "xrun"

local cfg = xrun.config {
  model    = "smollm2-135m-instruct",                        -- a folder, or one of `xrun models`
  data     = { { path = "recipes/data/calculator.jsonl", keep = { "answer" } } },
  valid    = { fraction = 0.1, every = 20 },
  sampling = { samples = 8, max_tokens = 48, max_turns = 3, temperature = 1.0 },
  clip     = 0.2,
  called   = 0.2,                                            -- reward of a call that has a result
  optim    = { lr = 1e-5, schedule = "constant" },
  batch    = { prompts = 8, max_tokens = 4096, fold_min = 16 },
  steps    = 20,
}

local policy = xrun.policy(cfg.model)
local train, valid = xrun.prompts(cfg.data, policy):split(cfg.valid)
local adamw  = xrun.adamw(policy, cfg.optim)

local function result(call)                                  -- the tool's answer to one call
  if call.error then return "error: " .. call.error end
  if call.name ~= "calculate" then return "error: the only tool is calculate" end
  local value, message = xrun.calculate(call.arguments.expression)
  return value and ("%.10g"):format(value) or "error: " .. message
end

local calculator = {}
function calculator.reply(_, turn)                           -- nil, the end, without a call
  if #turn.tool_calls == 0 then return nil end
  local messages, good = {}, 0
  for i, call in ipairs(turn.tool_calls) do
    messages[i] = { role = "tool", content = result(call) }
    if not messages[i].content:find("^error") then good = 1 end
  end
  return messages, turn.turn == 1 and good * cfg.called or 0
end

local function right(s) return xrun.rewards.number(s.text, s.answer) end
local function reward(s)
  return right(s) + s.environment_reward, { right = right(s), called = s.environment_reward }
end

local function grpo(r)                                       -- one loss per token, unreduced
  local ratio   = (policy:token_logprob(r) - r.old_logprob):exp()
  local clipped = ratio:clamp(1 - cfg.clip, 1 + cfg.clip)
  local a       = r:spread(r.advantage)                      -- [n] -> [R]
  return -(ratio * a):minimum(clipped * a), { ratio = ratio, clipped = clipped:ne(ratio) }
end

local sampling = { environment = calculator }
for name, value in pairs(cfg.sampling) do sampling[name] = value end
local sample_options = { environment = calculator, score = right,    -- greedy, held-out
                 max_tokens = cfg.sampling.max_tokens, max_turns = cfg.sampling.max_turns }

local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, prompts in run:steps(train, cfg.batch) do
  if step % cfg.valid.every == 0 then run:log(run:sample(policy, valid, 3, sample_options)) end
  local rollouts = policy:sample(prompts, sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  run:log(adamw:step(rollouts, grpo))
end
run:log(run:sample(policy, valid, 3, sample_options))
run:export(policy)
