-- expect: error tried to access index 1000000000000
local xrun = require "xrun"
xrun.ones({ 2 }):take(xrun.tensor({ 1e12 }):long())
