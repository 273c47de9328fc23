-- expect: harmless
local before = string.format
string.format = function() error("mine") end
pcall(print, ("%d"):rep(3))
string.format = before
