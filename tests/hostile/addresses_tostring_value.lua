-- expect: error returned no string
-- string.format would write the address of what __tostring returns.
local text = ("%s"):format(setmetatable({}, { __tostring = function() return {} end }))
assert(not text:find("0x"))
