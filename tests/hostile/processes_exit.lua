-- expect: error os.exit is not for a recipe that is not trusted
os.exit(0)
