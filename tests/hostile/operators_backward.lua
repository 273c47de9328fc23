-- expect: error does not require grad
local xrun = require "xrun"
xrun.ones({ 2 }):backward()
