-- expect: error os.remove is not for a recipe that is not trusted
os.remove("@OUTSIDE@/keep")
