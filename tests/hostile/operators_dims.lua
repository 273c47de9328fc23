-- expect: error 
require("xrun").ones({ 2 }):sum({ 1e18 })
