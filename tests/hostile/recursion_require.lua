-- expect: error 
-- circle.lua requires itself.
local function f() require "circle" return f() + 1 end
f()
