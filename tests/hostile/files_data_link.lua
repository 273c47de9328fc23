-- expect: error may not be read
-- linked.jsonl is a link to a file outside.
local xrun = require "xrun"
xrun.text({ { path = "linked.jsonl" } }, xrun.policy("./tiny"))
