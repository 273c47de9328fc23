-- expect: error Tensor has no method or property `__gc`
local xrun = require "xrun"
xrun.ones({ 2 }).__gc()
