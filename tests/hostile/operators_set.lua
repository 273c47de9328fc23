-- expect: error 
local xrun = require "xrun"
xrun.ones({ 2 }):set_(xrun.ones({ 4 }))
