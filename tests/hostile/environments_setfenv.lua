-- expect: error `setfenv` is not for a recipe that is not trusted
setfenv(1, {})
