-- expect: error out of memory
local xrun = require "xrun"
xrun.tensor({ 2 ^ 45 }):long():bincount()
