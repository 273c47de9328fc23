-- expect: harmless
local f, message = load("return " .. ("2 ^ "):rep(1e5) .. "1")
assert(f == nil and message)
