-- expect: error cannot change a protected metatable
local old = getmetatable(_G)
setmetatable(_G, { __index = function() return "x" end })
assert(io == "x")
setmetatable(_G, old)
