-- expect: error 
local xrun = require "xrun"
local t = xrun.ones({ 2, 2 })
xrun.ops.xrun.linear_head(t, t, xrun.tensor({ 9e9 }):long(), xrun.tensor({ 9e9 }):long())
