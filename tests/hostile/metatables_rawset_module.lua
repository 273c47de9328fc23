-- expect: harmless
local xrun = require "xrun"
local before = rawget(xrun, "zeros")
rawset(xrun, "zeros", 1)
rawset(xrun, "zeros", before)
