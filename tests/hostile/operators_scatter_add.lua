-- expect: error index -5 is out of bounds
local xrun = require "xrun"
xrun.ones({ 2 }):scatter_add_(0, xrun.tensor({ -5 }):long(), xrun.ones({ 1 }))
