-- expect: error `newproxy` is not for a recipe that is not trusted
newproxy(true)
