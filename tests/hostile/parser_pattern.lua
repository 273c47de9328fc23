-- expect: error too many captures
("x"):find(("("):rep(1e5))
