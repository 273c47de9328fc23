-- expect: harmless
pcall(load, "return " .. ("1 .. "):rep(1e5) .. "1")
