-- expect: error is invalid for input of size 6
require("xrun").ones({ 6 }):view({ 2 ^ 32, 2 ^ 32 })
