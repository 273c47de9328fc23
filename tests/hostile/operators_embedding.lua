-- expect: error index out of range
local xrun = require "xrun"
xrun.embedding(xrun.ones({ 2, 2 }), xrun.tensor({ 1e9 }):long())
