-- expect: harmless
local f, message = load("return " .. ("function() return "):rep(1e5))
assert(f == nil and message)
