-- expect: error debug.upvaluejoin is not for a recipe that is not trusted
print(debug.upvaluejoin(print, 1))
