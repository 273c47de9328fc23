-- expect: error 
local xrun = require "xrun"
xrun.ones({ 2 }):take(xrun.tensor({ 1e12 }):long())
