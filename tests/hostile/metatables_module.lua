-- expect: harmless
local xrun = require "xrun"
local before = xrun.policy
xrun.policy = nil
rawset(xrun, "policy", before)
