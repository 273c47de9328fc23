-- Generates Lua programs and runs each in a coroutine, as a recipe that is not trusted.
-- lua_program.py replaces the values of the next line: the seed, the first and the last program,
-- whether to print them, and the names of ATen's operators. A program depends only on the seed and
-- its number.
local seed, first, last, show, operators = 1, 1, 100, false, { "add" }
local xrun = require "xrun"
-- Programs may change every table that they reach.
local load, pcall, print, setmetatable, type, pairs = load, pcall, print, setmetatable, type, pairs
local concat, sort, floor = table.concat, table.sort, math.floor
local create, resume = coroutine.create, coroutine.resume
local globals = _G

local state
local function random(n)  -- 1 to n
  state = state * 16807 % 2147483647
  return floor(state / 2147483647 * n) + 1
end
local function one_of(list) return list[random(#list)] end

local functions = {}
local function add_functions(prefix, t)
  for name, value in pairs(t) do
    if type(name) == "string" and type(value) == "function" then
      functions[#functions + 1] = prefix .. name
    end
  end
end
add_functions("", globals)
for _, library in pairs { "string", "table", "math", "bit", "coroutine", "os" } do
  add_functions(library .. ".", globals[library])
end
add_functions("xrun.", xrun)
for _, module in pairs { "rewards", "kl", "sorted_pairs" } do
  local found, value = pcall(function() return xrun[module] end)
  if found and type(value) == "table" then add_functions("xrun." .. module .. ".", value) end
end
sort(functions)

local atoms = {
  "nil", "true", "false", "0", "1", "-1", "2", "3", "0.5", "-0.0", "1e15", "2^31", "2^53", "-2^63",
  "1/0", "0/0", "''", "'a'", "'%d'", "'%s%-5.3g%q'", "'(a*)%1'", "'[^%z'", "'%f[%w]()'",
  "('x'):rep(300)", "'\\0\\255'", "'f32'", "'i64'", "'bool'", "'cpu'", "'tiny'", "'return 1'", "{}",
  "{1,2,3}", "{{1,2},{3}}",
  "{n=-1}", "{2,3}", "{0,4}", "{-1,2^40}", "{dtype='i64'}", "{[0]=v,[-1]=w}",
  "function(...) return ... end", "function() error({}) end", "function() return v, w end",
  "coroutine.wrap(function(...) return coroutine.yield(...) end)",
  "coroutine.create(function() coroutine.yield(1) end)", "_G", "xrun", "string", "...", "v", "w",
  "v", "w", "setmetatable({}, {__index=function(_, k) return k end, __eq=rawequal,"
    .. " __call=function(...) return ... end, __tostring=function() return 1 end,"
    .. " __len=function() return -1 end, __lt=function() return true end,"
    .. " __concat=function(a) return a end, __unm=function() error() end})",
  "xrun.ones({2,3})", "xrun.zeros({0,4})", "xrun.arange(5)", "xrun.tensor({1,-2,3})",
  "xrun.tensor(3)",
  "xrun.ones({2,1,3},{dtype='i64'})", "xrun.tensor({1/0,0/0})", "xrun.randn({3,3})",
}
local binary = { "+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or" }
local unary = { "-", "not ", "#" }

local block
local expression

local function list(depth, most)
  local out = {}
  for i = 1, random(most + 1) - 1 do out[i] = expression(depth) end
  return concat(out, ", ")
end

local function between(d) return "(" .. expression(d) .. ")" end

local makers = {
  function(d) return one_of(functions) .. "(" .. list(d, 4) .. ")" end,
  function(d) return one_of(functions) .. "(" .. list(d, 2) .. ")" end,
  function(d) return between(d) .. ":" .. one_of(operators) .. "(" .. list(d, 3) .. ")" end,
  function(d) return "xrun." .. one_of(operators) .. "(" .. list(d, 4) .. ")" end,
  function(d) return between(d) .. "[" .. expression(d) .. "]" end,
  function(d) return between(d) .. "(" .. list(d, 3) .. ")" end,
  function(d) return "(" .. between(d) .. " " .. one_of(binary) .. " " .. between(d) .. ")" end,
  function(d) return one_of(unary) .. between(d) end,
  function(d) return "{k = " .. expression(d) .. ", " .. list(d, 3) .. "}" end,
  function(d) return "function(v, ...) " .. block(d) .. " end" end,
}
function expression(depth)
  if depth <= 0 or random(4) == 1 then return one_of(atoms) end
  return one_of(makers)(depth - 1)
end

local statements = {
  function(d) return "local v = " .. expression(d) end,
  function(d) return "w = " .. expression(d) end,
  function(d) return "pcall(" .. one_of(functions) .. ", " .. expression(d) .. ")" end,
  function(d) return "local _ = " .. expression(d) end,
  function(d) return between(d) .. "[" .. expression(d) .. "] = " .. expression(d) end,
  function(d) return "if " .. between(d) .. " then " .. block(d) .. " end" end,
  function(d) return "for i = 1, " .. random(4) .. " do " .. block(d) .. " end" end,
  function(d) return "for k, w in pairs" .. between(d) .. " do " .. block(d) .. "; break end" end,
  function(d) return "repeat local v = " .. expression(d) .. " until true" end,
  function(d) return "do goto out; " .. block(d) .. " ::out:: end" end,
  function(d) return "pcall(function(...) " .. block(d) .. " end, " .. expression(d) .. ")" end,
  function(d) return "coroutine.wrap(function(...) " .. block(d) .. " end)(" .. list(d, 2) .. ")"
  end,
}
function block(depth)
  if depth <= 0 then return "v = " .. expression(0) end
  local out = {}
  for i = 1, random(3) do out[i] = one_of(statements)(depth - 1) end
  return concat(out, "; ")
end

for number = first, last do
  state = (seed * 1000003 + number) % 2147483646 + 1
  for _ = 1, 8 do random(2) end
  local out = { "local xrun, v, w = ..." }
  for i = 1, random(5) do  -- an error ends one statement, not the program
    out[i + 1] = "pcall(function(...) " .. one_of(statements)(3) .. " end, v, w)"
  end
  local text = concat(out, "\n")
  print("@" .. number)  -- where a limit ended the batch
  if show then
    print(text)
  else
    local environment = setmetatable({ print = type }, { __index = globals })
    local program = load(text, "program", "t", environment)
    if program then resume(create(program), xrun, number, {}) end
  end
end
print "@end"
