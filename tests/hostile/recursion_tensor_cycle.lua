-- expect: error 
local xrun, t = require "xrun", {}
t[1] = t
xrun.tensor(t)
