-- expect: error is not for a recipe
local xrun = require "xrun"
xrun.ones({ 2, 2 }):gather(0, xrun.zeros({ 2, 2 }, { dtype = "i64" }), { sparse_grad = true })
