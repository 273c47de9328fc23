-- expect: harmless
local t = setmetatable({}, { __len = function() return 2 ^ 53 end })
pcall(table.concat, t, "", 1, 2 ^ 53)
pcall(table.insert, t, 2 ^ 20, 1)
