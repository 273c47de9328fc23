-- expect: error may not be read
local xrun = require "xrun"
xrun.chat({ { path = "chat.jsonl" } }, xrun.policy("./tiny"), { template = "@OUTSIDE@/secret.jinja" })
