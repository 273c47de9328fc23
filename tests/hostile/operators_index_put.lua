-- expect: error index 7000000000 is out of bounds
local xrun = require "xrun"
xrun.ones({ 2 }):index_put_({ xrun.tensor({ 7e9 }):long() }, xrun.ones({ 1 }))
