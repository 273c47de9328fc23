-- expect: error 
getmetatable("").__index = function() return "x" end
