-- expect: error too many results to unpack
print(unpack({}, 1, 1e8))
