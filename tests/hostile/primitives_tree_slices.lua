-- expect: error 
require("xrun").tree_slices({ 1e15, -1 }, { { 7 } })
