-- expect: harmless
local xrun = require "xrun"
local t = xrun.ones({ 2 })
assert(type(getmetatable(t)) == "string" and not pcall(setmetatable, t, {}))
