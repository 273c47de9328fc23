-- expect: error 
load("return io.open")()
