-- expect: error stack overflow
local t
t = setmetatable({}, { __tostring = function() return ("%s"):format(t) end })
print(("%s"):format(t))
