-- expect: error which writes an address, is not for a recipe that is not trusted
print(("%p"):format({}))
