-- expect: harmless
local f, message = load("return " .. ("- "):rep(1e6) .. "1")
assert(f == nil and message)
