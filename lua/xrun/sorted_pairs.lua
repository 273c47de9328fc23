-- Iterates over a table in key order, numbers before strings; other keys are not supported.
local function before(a, b)
  if type(a) == type(b) then return a < b end
  return type(a) == "number"
end

return function(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, before)
  local i = 0
  return function()
    i = i + 1
    return keys[i], t[keys[i]]
  end
end
