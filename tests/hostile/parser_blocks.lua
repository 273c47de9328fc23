-- expect: harmless
local f, message = load(("do "):rep(1e5))
assert(f == nil and message)
