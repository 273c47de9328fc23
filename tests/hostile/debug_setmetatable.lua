-- expect: error debug.setmetatable is not for a recipe that is not trusted
print(debug.setmetatable(print, 1))
