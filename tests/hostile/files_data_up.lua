-- expect: error may not be read
local xrun = require "xrun"
xrun.text({ { path = "../outside/secret.jsonl" } }, xrun.policy("./tiny"))
