-- expect: error `io` is not for a recipe that is not trusted
for line in io.lines("@OUTSIDE@/secret.txt") do print(line) end
