-- expect: error 
error(require("xrun").ones({ 2 }))
