-- objective_share.lua: what the Lua of a DPO objective costs, without the forwards it waits for.
-- Prints microseconds per call for 8 pairs; divide by a step's time for the share of Lua.
local xrun = require "xrun"

local logprob = xrun.randn({ 8 }, { requires_grad = true })
local fixed   = xrun.randn({ 8 })

local function dpo()
  local chosen   = logprob - fixed
  local rejected = logprob * 0.5 - fixed
  local margin   = 0.1 * (chosen - rejected)
  return -margin:log_sigmoid(), {
    margin = margin, accuracy = (margin:sign() + 1) / 2,
    reward_chosen = 0.1 * chosen, reward_rejected = 0.1 * rejected,
  }
end

local loss = dpo()
assert(loss.shape[1] == 8, "one loss per pair")
local calls, began = 20000, os.clock()
for _ = 1, calls do dpo() end
local seconds = os.clock() - began
print(("%.1f us a call of the objective (%d calls)"):format(seconds / calls * 1e6, calls))
