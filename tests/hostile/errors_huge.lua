-- expect: alone error xxxxxxxx
error(("x"):rep(1e8))
