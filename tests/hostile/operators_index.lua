-- expect: error 
local xrun = require "xrun"
print(xrun.ones({ 2 })[1e9])
