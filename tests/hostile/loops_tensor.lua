-- expect: alone ended --limit-seconds
local xrun = require "xrun"
local a = xrun.ones({ 512, 512 })
while true do a = a:matmul(a) end
