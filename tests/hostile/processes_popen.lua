-- expect: error `io` is not for a recipe that is not trusted
io.popen("touch @OUTSIDE@/new")
