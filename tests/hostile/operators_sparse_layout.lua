-- expect: error 
require("xrun").zeros({ 4 }, { layout = "sparse_coo" })
