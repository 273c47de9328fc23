-- expect: error is 6 but size is 1000000000
require("xrun").ones({ 6 }):unfold(0, 1e9, 1)
