-- expect: error may not be read
local xrun = require "xrun"
xrun.text({ { path = "/dev/zero" } }, xrun.policy("./tiny"))
