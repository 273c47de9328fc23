-- expect: harmless
local t = setmetatable({}, { __mode = "kv" })
for i = 1, 1e5 do t[{}] = {} end
