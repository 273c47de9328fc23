-- expect: error may not be read
print(require "@OUTSIDE@/secret")
