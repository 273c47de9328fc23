-- expect: error argument `layout` got "sparse_coo"
require("xrun").zeros({ 4 }, { layout = "sparse_coo" })
