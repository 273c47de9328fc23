-- expect: error 
require("xrun").ones({ 6 }):unfold(0, 1e9, 1)
