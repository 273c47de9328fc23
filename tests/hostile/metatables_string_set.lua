-- expect: error table expected, got string
setmetatable("", {})
