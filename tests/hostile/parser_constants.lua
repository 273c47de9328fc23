-- expect: harmless
local t = {}
for i = 1, 1e5 do t[i] = i .. ".5" end
pcall(load, "return { " .. table.concat(t, ", ") .. " }")
