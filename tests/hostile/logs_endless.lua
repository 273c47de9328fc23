-- expect: alone error --limit-output MB allows more
while true do print(("x"):rep(1000)) end
