-- expect: error 
("x"):find(("("):rep(1e5))
