-- expect: error index out of range
local xrun = require "xrun"
xrun.ones({ 2 }):index_select(0, xrun.tensor({ -1e9 }):long())
