-- expect: error 
require("xrun").ones({ 2 }):resize_({ 1e6 })
