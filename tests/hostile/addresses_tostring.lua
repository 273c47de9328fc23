-- expect: harmless
for _, v in ipairs { {}, print, function() end, coroutine.create(print), require("xrun") } do
  assert(not tostring(v):find("%x%x%x%x"), tostring(v))
end
