-- expect: harmless
for _, v in ipairs { {}, print, coroutine.create(print) } do
  assert(not ("%s"):format(v):find("%x%x%x%x"))
end
