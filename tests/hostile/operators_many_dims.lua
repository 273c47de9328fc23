-- expect: error summed
local xrun, s = require "xrun", {}
for i = 1, 1000 do s[i] = 1 end
print(xrun.ones(s):sum():item())
error("summed")
