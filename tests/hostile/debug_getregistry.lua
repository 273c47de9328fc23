-- expect: error debug.getregistry is not for a recipe that is not trusted
print(debug.getregistry(print, 1))
