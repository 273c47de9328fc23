-- expect: error 
error(setmetatable({}, { __tostring = function() error("inside") end }))
