-- expect: error debug.getupvalue is not for a recipe that is not trusted
print(debug.getupvalue(print, 1))
