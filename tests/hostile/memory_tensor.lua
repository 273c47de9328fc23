-- expect: error 
require("xrun").zeros({ 1e12 })
