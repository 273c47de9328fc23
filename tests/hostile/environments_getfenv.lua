-- expect: error `getfenv` is not for a recipe that is not trusted
print(getfenv(0).io)
