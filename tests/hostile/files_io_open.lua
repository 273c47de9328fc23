-- expect: error `io` is not for a recipe that is not trusted
local xrun = require "xrun"
io.open("@OUTSIDE@/secret.txt"):read("*a")
