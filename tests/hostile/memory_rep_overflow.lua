-- expect: harmless 
print(#("x"):rep(2 ^ 52))
