-- expect: harmless
for i = 1, 1e5 do setmetatable({}, { __gc = function() while true do end end }) end
