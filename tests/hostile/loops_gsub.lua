-- expect: alone ended --limit-seconds
while true do ("x"):rep(1e6):gsub(".", "%0") end
