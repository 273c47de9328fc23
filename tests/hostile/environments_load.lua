-- expect: harmless
local e = {}
load("x = 1", "x", "t", e)()
assert(e.x == 1 and rawget(_G, "x") == nil)
