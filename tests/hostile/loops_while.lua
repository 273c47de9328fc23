-- expect: alone ended --limit-seconds
while true do end
