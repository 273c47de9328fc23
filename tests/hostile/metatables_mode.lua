-- expect: error 
local m = { __metatable = 1 }
local t = setmetatable({}, m)
setmetatable(t, {})
