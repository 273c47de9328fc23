-- expect: error 
local xrun = require "xrun"
xrun.group_advantage(xrun.ones({ 2 }), xrun.tensor({ -9e18, 9e18, 1 }))
