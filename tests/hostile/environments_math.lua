-- expect: harmless
local before = math.randomseed
math.randomseed = nil
math.randomseed = before
