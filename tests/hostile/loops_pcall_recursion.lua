-- expect: alone ended --limit-seconds
local function f() local ok, e = pcall(f); return f() end
f()
