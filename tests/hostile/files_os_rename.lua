-- expect: error os.rename is not for a recipe that is not trusted
os.rename("@OUTSIDE@/keep", "@OUTSIDE@/moved")
