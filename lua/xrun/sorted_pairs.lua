-- xrun.sorted_pairs(table) -> iterator
-- Goes through a table in the order of its keys, numbers before text: the order of pairs differs
-- from run to run, so no result may depend on it.

local function before(a, b)
  if type(a) == type(b) then return a < b end
  return type(a) == "number"
end

local function sorted_pairs(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, before)
  local i = 0
  return function()
    i = i + 1
    return keys[i], t[keys[i]]
  end
end

return sorted_pairs
