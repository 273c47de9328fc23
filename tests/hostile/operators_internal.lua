-- expect: error 
local xrun = require "xrun"
xrun.ops.aten._foreach_add(xrun.ones({ 2 }), 1)
