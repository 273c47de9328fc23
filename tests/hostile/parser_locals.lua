-- expect: harmless
local t = {}
for i = 1, 300 do t[i] = "local a" .. i end
local f, message = load(table.concat(t, " "))
assert(f == nil and message:find("local"))
