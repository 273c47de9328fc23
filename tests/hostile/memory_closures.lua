-- expect: alone ended memory
local last
while true do local before = last; last = function() return before end end
