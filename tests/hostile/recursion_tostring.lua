-- expect: error stack overflow
local t
t = setmetatable({}, { __tostring = function() return tostring(t) end })
print(t)
