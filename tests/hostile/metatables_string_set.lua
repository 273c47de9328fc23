-- expect: error 
setmetatable("", {})
