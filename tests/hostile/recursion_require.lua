-- expect: error circle.lua:2: circle
-- circle.lua requires itself.
local function f() require "circle" return f() + 1 end
f()
