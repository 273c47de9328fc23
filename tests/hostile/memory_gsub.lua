-- expect: error memory
local s = ("x"):rep(1e6)
print(#s:gsub("x", s))
