-- expect: error is not for a recipe
require("xrun").ones({ 2 }):to_sparse()
