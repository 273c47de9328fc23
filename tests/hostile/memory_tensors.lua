-- expect: error out of memory
local xrun, t = require "xrun", {}
for i = 1, 1e4 do t[i] = xrun.ones({ 1e6 }) end
