-- expect: error `io` is not for a recipe that is not trusted
io.output("@OUTSIDE@/new.txt"):write("x")
