-- expect: error may not be read
local xrun = require "xrun"
xrun.text({ { path = "@OUTSIDE@/*.jsonl" } }, xrun.policy("./tiny"))
