-- expect: error index 1000000000 is out of bounds
local xrun = require "xrun"
xrun.ones({ 2 }):scatter_(0, xrun.tensor({ 1e9 }):long(), 1)
