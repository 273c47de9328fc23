-- expect: error 
local function f() return load("return ...")(f()) end
f()
