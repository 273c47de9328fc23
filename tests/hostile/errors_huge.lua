-- expect: alone error 
error(("x"):rep(1e8))
