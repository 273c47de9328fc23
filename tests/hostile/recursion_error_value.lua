-- expect: error a list of 1
local t = {}
for i = 1, 1e5 do t = { t } end
error(t)
