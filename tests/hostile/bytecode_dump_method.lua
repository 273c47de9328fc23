-- expect: error string.dump is not for a recipe that is not trusted
("x").dump(function() end)
