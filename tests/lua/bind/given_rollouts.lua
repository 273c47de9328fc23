-- Runs a whole recipe over rollouts with given log-probs. Returns the mean of the losses of the
-- first objective that it passes to adamw:step, and the policy's log-probs, which have a gradient.
-- Arguments: the real module xrun, the path of the recipe, the settings that replace its config's,
-- and the rollouts { length, advantage = [n], policy, old, reference = [R] }.
local xrun, path, settings, given = ...

local function doubles(values) return xrun.tensor(values, { dtype = "f64" }) end

local segment = {}                               -- of each token
for i, length in ipairs(given.length) do
  for _ = 1, length do segment[#segment + 1] = i - 1 end
end
segment = xrun.tensor(segment, { dtype = "i64" })
local length = doubles(given.length)
local policy_logprob = doubles(given.policy):requires_grad_(true)
local rollouts = { advantage = doubles(given.advantage), old_logprob = doubles(given.old) }
function rollouts.sum(_, x) return (length * 0):index_add(0, segment, x) end
function rollouts.mean(r, x) return r:sum(x) / length end
function rollouts.spread(_, x) return x:index_select(0, segment) end

local function model(logprob)
  local made = {
    token_logprob = function() return logprob end,
    head = function(_, _, options)
      return { logprob = logprob, entropy = options.entropy and logprob:neg() or nil }
    end,
  }
  made.reference = function() return model(doubles(given.reference)) end
  -- A field set by the recipe must not replace the given advantage.
  made.sample = function() return setmetatable({}, {
    __index = {
      score = function(self) return self end,
      minibatches = function(self)
        local done
        return function() if not done then done = true; return self end end
      end,
    },
  }) end
  return made
end

local function set() return { split = function(self) return self, self end } end
local function nothing() return {} end

local stepped
local run = { state = {}, log = nothing, sample = nothing, export = nothing, evaluate = nothing }
function run.steps()                             -- one body
  local step = -1
  return function() step = step + 1; if step == 0 then return step, {} end end
end

local options                                    -- of group_advantage
local stand_in = setmetatable({
  config = function(cfg)
    for name, value in pairs(settings) do
      assert(cfg[name] ~= nil, path .. " has no setting " .. name)
      cfg[name] = value
    end
    return cfg
  end,
  policy = function() return model(policy_logprob) end,
  prompts = set,
  rollouts = nothing,
  adamw = function() return { step = function(_, _, objective) stepped = objective end } end,
  run = function() return run end,
  group_advantage = function(_, _, given_options) options = given_options or {} end,
  -- Inside a step the denominator is the step's; here the whole batch is one.
  reinforce = function(logprob, weight)
    local w = rollouts:spread(weight)
    return -(w * logprob) * (w:numel() / w:abs():sum():item())
  end,
}, { __index = xrun })

local recipe = assert(loadfile(path))
setfenv(recipe, setmetatable({ require = function() return stand_in end }, { __index = _G }))
recipe()
local losses, metrics = stepped(rollouts)
local total
for _, loss in pairs(type(losses) == "table" and losses or { token = losses }) do
  total = total and total + loss:mean() or loss:mean()
end
return total, policy_logprob, options.baseline or "mean", options.scale ~= false, metrics
