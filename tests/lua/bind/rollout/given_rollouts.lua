-- Runs a whole recipe over rollouts with given log-probs. Returns the mean of the losses of the
-- first objective that it passes to adamw:step, the leaf by which its gradient is taken, and the
-- baseline, scale and rewards that it passes to group_advantage.
-- Arguments: the real module xrun, the path of the recipe, the settings that replace its config's,
-- and the rollouts { length, advantage, reward = [n], policy, old, sampler, reference = [R] }, with
-- the leaf `policy`; or { length, advantage, old, target, vocabulary, logits = [R * vocabulary] },
-- whose leaf is `logits`, so that the objective has an entropy.
local xrun, path, settings, given = ...

local function doubles(values) return values and xrun.tensor(values, { dtype = "f64" }) end

local segment = {}                               -- of each token
for i, length in ipairs(given.length) do
  for _ = 1, length do segment[#segment + 1] = i - 1 end
end
segment = xrun.tensor(segment, { dtype = "i64" })
local length = doubles(given.length)
local leaf = doubles(given.logits or given.policy):requires_grad_(true)
local rollouts = {
  advantage = doubles(given.advantage), reward = doubles(given.reward),
  old_logprob = doubles(given.old), sampler_logprob = doubles(given.sampler),
}
function rollouts.sum(_, x) return (length * 0):index_add(0, segment, x) end
function rollouts.mean(r, x) return r:sum(x) / length end
function rollouts.spread(_, x) return x:index_select(0, segment) end
function rollouts.truncated_ratio(r, cap)
  return (r.old_logprob - r.sampler_logprob):exp():clamp_max(cap)
end

-- The head of the engine, in float64: its hidden states are the logits themselves.
local function head_of_logits()
  local columns = given.vocabulary
  local rows = xrun.arange(length:sum():item(), { dtype = "i64" })
  local logprob, entropy, lse = xrun.ops.xrun.linear_head(
    leaf:view { -1, columns }, xrun.eye(columns, { dtype = "f64" }), rows,
    xrun.tensor(given.target, { dtype = "i64" }), { entropy = true, lse = true })
  return { logprob = logprob, entropy = entropy, lse = lse }
end

local function model(logprob)
  local made = {
    token_logprob = function() return logprob end,
    head = function()
      if given.logits then return head_of_logits() end
      return { logprob = logprob, entropy = logprob * 0 }
    end,
  }
  made.reference = function() return model(doubles(given.reference)) end
  -- A field set by the recipe must not replace a given one.
  made.sample = function() return setmetatable({}, {
    __index = function(self, name)
      if name == "score" then return function() return self end end
      if name == "minibatches" then
        return function()
          local done
          return function() if not done then done = true; return self end end
        end
      end
      return rollouts[name]
    end,
    __newindex = function(_, name, value)
      if rollouts[name] == nil then rollouts[name] = value end
    end,
  }) end
  return made
end

local function set() return { split = function(self) return self, self end } end
local function nothing() return {} end

local stepped
local run = { state = {}, log = nothing, sample = nothing, export = nothing, evaluate = nothing }
function run.steps()                             -- one body
  local step = -1
  return function()
    step = step + 1
    if step == 0 then return step, model():sample() end
  end
end

local options, scored = {}, rollouts.reward      -- of group_advantage
local stand_in = setmetatable({
  config = function(cfg)
    for name, value in pairs(settings) do
      assert(cfg[name] ~= nil, path .. " has no setting " .. name)
      cfg[name] = value
    end
    return cfg
  end,
  policy = function() return model(given.policy and leaf) end,
  prompts = set,
  rollouts = nothing,
  adamw = function() return { step = function(_, _, objective) stepped = objective end } end,
  run = function() return run end,
  group_advantage = function(reward, _, given_options)
    scored, options = reward, given_options or {}
    return rollouts.advantage
  end,
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
return total, leaf, options.baseline or "mean", options.scale ~= false, scored, metrics
