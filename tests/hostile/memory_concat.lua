-- expect: error memory
local t = {}
for i = 1, 4096 do t[i] = ("x"):rep(1e6) end
print(#table.concat(t))
