-- expect: harmless
local xrun = require "xrun"
print(xrun.calculate(("("):rep(1e5)))
