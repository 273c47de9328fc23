-- expect: harmless
local f, message = load("return " .. ("("):rep(1e5) .. "1" .. (")"):rep(1e5))
assert(f == nil and message)
