-- expect: error `dofile` is not for a recipe that is not trusted
dofile("@OUTSIDE@/secret.lua")
