-- expect: error may not be read
local xrun = require "xrun"
xrun.text({ { path = "/proc/self/fd/0" } }, xrun.policy("./tiny"))
