-- expect: alone harmless
for i = 1, 1e5 do print(("x"):rep(100)) end
