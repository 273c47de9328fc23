-- expect: error not enough memory
local s = ("x"):rep(2 ^ 30)
local t = {}
for i = 1, 64 do t[i] = s .. i end
