-- expect: harmless
local f, message = load("return " .. ("not "):rep(1e5) .. "1")
assert(f == nil and message)
