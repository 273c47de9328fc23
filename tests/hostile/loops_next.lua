-- expect: error invalid key
local t = { a = 1 }
for k in pairs(t) do t[k] = nil; for i = 1, 99 do t[i] = i end end
for k in next, t, "nothing" do end
