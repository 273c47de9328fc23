-- expect: error lists are nested deeper than 64 levels
local xrun, t = require "xrun", { 1 }
for i = 1, 1e5 do t = { t } end
xrun.tensor(t)
