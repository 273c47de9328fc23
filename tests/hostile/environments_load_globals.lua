-- expect: error `io` is not for a recipe
load("return io.open")()
