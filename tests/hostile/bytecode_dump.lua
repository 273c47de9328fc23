-- expect: error string.dump is not for a recipe that is not trusted
string.dump(function() end)
