-- expect: error stack overflow
local function f() return load("return ...")(f()) end
f()
