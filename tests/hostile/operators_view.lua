-- expect: error 
require("xrun").ones({ 6 }):view({ 2 ^ 32, 2 ^ 32 })
