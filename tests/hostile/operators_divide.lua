-- expect: error divided by -1 is beyond the range of i64
local xrun = require "xrun"
local lowest = xrun.ones({ 1 }, { dtype = "i64" }):bitwise_left_shift(63)
lowest:div(xrun.full({ 1 }, -1, { dtype = "i64" }), { rounding_mode = "trunc" })
