-- expect: error debug.setlocal is not for a recipe that is not trusted
print(debug.setlocal(print, 1))
