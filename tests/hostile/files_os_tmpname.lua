-- expect: error os.tmpname is not for a recipe that is not trusted
print(os.tmpname())
