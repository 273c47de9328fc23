-- expect: error 
local xrun = require "xrun"
xrun.policy("./tiny"):sample({ "a" }, { samples = 2 ^ 31, max_tokens = 2 ^ 40 })
