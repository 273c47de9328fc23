-- expect: alone ended --limit-seconds
while true do pcall(function() while true do end end) end
