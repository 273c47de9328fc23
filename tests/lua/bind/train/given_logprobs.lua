-- Runs a whole recipe over models that return given log-probs. Returns the losses of the first
-- objective that it passes to adamw:step and, of pairs, the leaves by which gradients are taken:
-- the policy's sums of the chosen and of the rejected answers.
-- Arguments: the real module xrun, the recipe's path, the settings that replace its config's, and
-- the given sums per sequence: pairs { chosen = { length = {..}, policy = {..},
-- reference = {..} }, rejected = ... }, which also serve as the scores of a scorer, or answers with
-- a label each and `mismatched` ones beside them.
local xrun, path, settings, given = ...

local function view(side)
  if side == nil then return nil end
  return {
    length = xrun.tensor(side.length, { dtype = "i64" }),
    label = side.label and xrun.tensor(side.label, { dtype = "i64" }),
    policy = xrun.tensor(side.policy, { dtype = "f64" }):requires_grad_(true),
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

local stepped, evaluated = nil, {}               -- objectives
local run = { state = {}, log = nothing, sample = nothing, export = nothing }
local batch = {
  size = 2, label = xrun.zeros(1), weight = xrun.ones(1),
  mismatched = function() return view(given.mismatched) end,
}
function run.evaluate(_, _, objective) evaluated[objective] = true; return {} end
function run.mean(_, x) return x end
function run.steps()                             -- one body
  local step = -1
  return function() step = step + 1; if step == 0 then return step, batch, batch end end
end

local adamw = {}
function adamw.step(_, first, objective) stepped = objective or first[1][2] end

local stand_in = setmetatable({
  config = function(cfg)
    for name, value in pairs(settings) do
      assert(cfg[name] ~= nil, path .. " has no setting " .. name)
      cfg[name] = value
    end
    return cfg
  end,
  policy = function() return model("policy") end,
  scorer = function() return { score = function(_, shown) return shown.policy end } end,
  preference = set, chat = set, feedback = set,
  adamw = function() return adamw end,
  run = function() return run end,
}, { __index = xrun })

local recipe = assert(loadfile(path))
setfenv(recipe, setmetatable({ require = function() return stand_in end }, { __index = _G }))
recipe()
assert(evaluated[stepped], path .. " validates with another objective than it trains")
local shown = view(given.answers)
  or { chosen = view(given.chosen), rejected = view(given.rejected) }
local losses = stepped(shown)
if type(losses) == "table" then losses = losses.sequence end
return losses, shown.chosen and shown.chosen.policy, shown.rejected and shown.rejected.policy
