-- expect: alone ended --limit-seconds
-- Exponential backtracking inside one call of C.
print((("a"):rep(64)):find(("a-"):rep(40) .. "b"))
