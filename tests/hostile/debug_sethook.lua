-- expect: error debug.sethook is not for a recipe that is not trusted
print(debug.sethook(print, 1))
