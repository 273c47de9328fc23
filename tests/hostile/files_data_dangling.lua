-- expect: error may not be read
-- dangling.jsonl is a link to a file outside that does not exist.
local xrun = require "xrun"
xrun.text({ { path = "dangling.jsonl" } }, xrun.policy("./tiny"))
