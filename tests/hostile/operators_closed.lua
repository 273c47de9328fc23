-- expect: error this Tensor is closed
local xrun = require "xrun"
local t = xrun.ones({ 2 })
t:close()
print(t:sum())
