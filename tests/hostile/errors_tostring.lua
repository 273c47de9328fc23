-- expect: alone error the error's __tostring failed
error(setmetatable({}, { __tostring = function() error("inside") end }))
