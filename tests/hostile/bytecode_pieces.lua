-- expect: error got function, wanted a string
local pieces = { "\27", "LJ\2" }
load(function() return table.remove(pieces, 1) end)
