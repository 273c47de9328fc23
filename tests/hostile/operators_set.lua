-- expect: error Tensor has no method or property `set_`
local xrun = require "xrun"
xrun.ones({ 2 }):set_(xrun.ones({ 4 }))
