-- expect: harmless
local _, message = pcall(function() return {} .. {} end)
assert(not tostring(message):find("0x"))
local _, other = pcall(require("xrun").policy, {})
assert(not tostring(other):find("0x"))
