-- expect: error 
require("xrun").ones({ 2 ^ 40, 2 ^ 40 })
