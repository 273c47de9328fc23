-- expect: alone error may not be read
local xrun = require "xrun"
local cfg = xrun.config { extends = "@OUTSIDE@/secret.lua", answers = 1 }
print(cfg.answers)
