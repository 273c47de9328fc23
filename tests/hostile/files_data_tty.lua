-- expect: error may not be read
local xrun = require "xrun"
xrun.text({ { path = "/dev/tty" } }, xrun.policy("./tiny"))
