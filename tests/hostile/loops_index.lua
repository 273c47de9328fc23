-- expect: error loop in gettable
local a, b = {}, {}
setmetatable(a, { __index = b })
setmetatable(b, { __index = a })
print(a.x)
