-- expect: error the group of rollout 0 is -9000000
local xrun = require "xrun"
xrun.group_advantage(xrun.ones({ 3 }), xrun.tensor({ -9e18, 9e18, 1 }):long())
