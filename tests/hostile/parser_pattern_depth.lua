-- expect: error pattern too complex
("x"):rep(1e6):find(("x?"):rep(1e6) .. "y")
