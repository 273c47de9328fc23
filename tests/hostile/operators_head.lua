-- expect: error index[0] is 9000000000, outside the 2 rows of hidden
local xrun = require "xrun"
local t = xrun.ones({ 2, 2 })
xrun.ops.xrun.linear_head(t, t, xrun.tensor({ 9e9 }):long(), xrun.tensor({ 9e9 }):long())
