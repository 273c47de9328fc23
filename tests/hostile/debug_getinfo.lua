-- expect: error debug.getinfo is not for a recipe that is not trusted
print(debug.getinfo(print, 1))
