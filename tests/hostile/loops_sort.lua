-- expect: error invalid order function for sorting
local t = {}
for i = 1, 1000 do t[i] = i end
table.sort(t, function() return true end)
