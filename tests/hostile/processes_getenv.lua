-- expect: error os.getenv is not for a recipe that is not trusted
print(os.getenv("HOME"))
