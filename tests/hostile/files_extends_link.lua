-- expect: alone error may not be read
-- linked.lua is a link to a file outside.
local xrun = require "xrun"
local cfg = xrun.config { extends = "linked.lua", answers = 1 }
print(cfg.answers)
