-- expect: error 
local xrun = require "xrun"
xrun.ones({ 2 }).__gc()
