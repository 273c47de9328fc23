-- expect: error out of memory
local xrun = require "xrun"
xrun.one_hot(xrun.tensor { 2 ^ 50 }:long())
