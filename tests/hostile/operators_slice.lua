-- expect: error Tensor:narrow: no overload takes
local t = require("xrun").ones({ 2 })
print(t:narrow(0, -2 ^ 62, 2 ^ 62))
