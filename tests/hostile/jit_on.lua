-- expect: error `jit` is not for a recipe that is not trusted
jit.on()
