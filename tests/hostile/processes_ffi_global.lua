-- expect: error `ffi` is not for a recipe that is not trusted
print(ffi.C)
