-- expect: error is not a regular file
-- pipe.jsonl is a named pipe that nobody writes to.
local xrun = require "xrun"
xrun.text({ { path = "pipe.jsonl" } }, xrun.policy("./tiny"))
