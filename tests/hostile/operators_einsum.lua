-- expect: error 
local xrun = require "xrun"
xrun.einsum(("a"):rep(1e5) .. "->", { xrun.ones({ 2 }) })
