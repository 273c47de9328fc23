-- expect: harmless
-- Every metamethod that getmetatable reaches is called with arguments that are not its own.
local xrun = require "xrun"
local seen = {}
local todo = { _G, xrun, xrun.ops, xrun.ops.aten, xrun.ops.xrun, xrun.ones({ 1 }), "", {} }
local arguments = { {}, { nil, "ones" }, { 1, "ones" }, { "x", "aten" }, { {}, "ffi" }, { print, 1, 2 } }
while #todo > 0 do
  local value = table.remove(todo)
  local meta = getmetatable(value)
  if type(meta) == "table" and not seen[meta] then
    todo[#todo + 1] = meta
    for _, method in pairs(meta) do
      for _, a in ipairs(arguments) do pcall(method, a[1], a[2], a[3]) end
    end
  end
  if type(value) == "table" and not seen[value] then
    seen[value] = true
    for _, member in pairs(value) do
      if type(member) == "table" or type(member) == "userdata" then todo[#todo + 1] = member end
    end
  end
end
assert(not getmetatable(_G) and not getmetatable(xrun) and not getmetatable(xrun.ops.aten))
