-- expect: alone ended --limit-seconds
local function f() return f() end
f()
