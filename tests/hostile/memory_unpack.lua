-- expect: error 
print(unpack({}, 1, 1e8))
