-- expect: error Storage size calculation overflowed
require("xrun").ones({ 2 ^ 40, 2 ^ 40 })
