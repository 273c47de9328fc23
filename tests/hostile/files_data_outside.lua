-- expect: error may not be read
local xrun = require "xrun"
xrun.text({ { path = "@OUTSIDE@/secret.jsonl" } }, xrun.policy("./tiny"))
