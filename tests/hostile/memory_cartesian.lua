-- expect: error integer multiplication overflow
local xrun = require "xrun"
local a = xrun.ones({ 1e4 })
xrun.cartesian_prod({ a, a, a, a, a })
