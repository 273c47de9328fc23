-- expect: error stack overflow
local m = {}
m.__lt = function(a, b) return a < b end
print(setmetatable({}, m) < setmetatable({}, m))
