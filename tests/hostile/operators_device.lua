-- expect: error 
require("xrun").ones({ 2 }):to("cuda:99")
