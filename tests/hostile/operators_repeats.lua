-- expect: error output_size is not accepted
local xrun = require "xrun"
xrun.repeat_interleave(xrun.tensor({ 50000000, -49999998 }, { dtype = "i64" }), { output_size = 2 })
