-- expect: error may not be read
-- The environment may hold keys.
local xrun = require "xrun"
xrun.text({ { path = "/proc/self/environ" } }, xrun.policy("./tiny"))
