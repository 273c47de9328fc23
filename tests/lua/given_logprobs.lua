-- Runs a recipe, whole and as it is, over models that answer with given log-probs, and returns the
-- losses of the last objective that it hands to adamw:step. Called with the true module xrun, the
-- recipe's path, the settings that replace those of its config, and the pairs:
-- { chosen = { length = {..}, policy = {..}, reference = {..} }, rejected = ... }, sums a sequence.
local xrun, path, settings, pairs_given = ...

local function view(side)
  return {
    length = xrun.tensor(side.length, { dtype = "i64" }),
    policy = xrun.tensor(side.policy, { dtype = "f64" }),
    reference = xrun.tensor(side.reference, { dtype = "f64" }),
  }
end

local function model(name)
  local made = { logprob = function(_, shown) return shown[name] end }
  made.reference = function() return model("reference") end
  return made
end

local function set() return { split = function(self) return self, self end } end
local function nothing() return {} end

local stepped, evaluated                         -- objectives
local run = { state = {}, log = nothing, sample = nothing, export = nothing }
function run.evaluate(_, _, objective) evaluated = objective; return {} end
function run.steps()                             -- one body
  local step = -1
  return function() step = step + 1; if step == 0 then return step, {} end end
end

local stand_in = setmetatable({
  config = function(cfg)
    for name, value in pairs(settings) do
      assert(cfg[name] ~= nil, path .. " has no setting " .. name)
      cfg[name] = value
    end
    return cfg
  end,
  policy = function() return model("policy") end,
  preference = set, chat = set,
  adamw = function() return { step = function(_, _, objective) stepped = objective end } end,
  run = function() return run end,
}, { __index = xrun })

local recipe = assert(loadfile(path))
setfenv(recipe, setmetatable({ require = function() return stand_in end }, { __index = _G }))
recipe()
assert(stepped == evaluated, path .. " validates by another objective than it trains")
local losses = stepped { chosen = view(pairs_given.chosen), rejected = view(pairs_given.rejected) }
return losses
