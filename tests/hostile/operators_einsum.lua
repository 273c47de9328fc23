-- expect: error the number of subscripts in the equation (100000)
local xrun = require "xrun"
xrun.einsum(("a"):rep(1e5) .. "->", { xrun.ones({ 2 }) })
