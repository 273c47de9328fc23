-- expect: error cannot change a protected metatable
local m = { __metatable = 1 }
local t = setmetatable({}, m)
setmetatable(t, {})
