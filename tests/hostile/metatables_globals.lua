-- expect: harmless
local old = getmetatable(_G)
setmetatable(_G, { __index = function() return "x" end })
assert(io == "x")
setmetatable(_G, old)
