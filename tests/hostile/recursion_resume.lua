-- expect: harmless
local function f() return coroutine.resume(coroutine.create(f)) end
f()
