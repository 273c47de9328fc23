-- expect: error `loadfile` is not for a recipe that is not trusted
print(loadfile("@OUTSIDE@/secret.lua"))
