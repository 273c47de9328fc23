-- expect: error lists are nested deeper than 64 levels
local xrun, t = require "xrun", {}
t[1] = t
xrun.tensor(t)
