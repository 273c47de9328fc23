-- expect: error 
require("xrun").arange(1e14)
