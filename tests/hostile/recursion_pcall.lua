-- expect: harmless
local function f() return pcall(f) end
f()
