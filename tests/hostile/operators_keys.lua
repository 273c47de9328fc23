-- expect: error no overload takes (
local xrun = require "xrun"
xrun.ones({ 2 }):add(1, { [true] = 2 })
