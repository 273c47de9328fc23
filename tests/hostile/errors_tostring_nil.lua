-- expect: error 
error(setmetatable({}, { __tostring = function() end }))
