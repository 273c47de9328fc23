-- expect: error index 1000000000 out of range
local xrun = require "xrun"
print(xrun.ones({ 2 })[1e9])
