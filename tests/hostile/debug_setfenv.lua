-- expect: error debug.setfenv is not for a recipe that is not trusted
print(debug.setfenv(print, 1))
