-- expect: error 
local t = {}
for i = 1, 1e5 do t = { t } end
error(t)
