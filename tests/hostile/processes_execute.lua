-- expect: error os.execute is not for a recipe that is not trusted
os.execute("touch @OUTSIDE@/new")
