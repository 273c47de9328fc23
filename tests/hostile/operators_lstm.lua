-- expect: error is not for a recipe
local xrun = require "xrun"
local t = xrun.ones({ 2 })
xrun.lstm(t, { t }, { t }, true, 1, 0, false, false, false)
