-- expect: error out of memory
require("xrun").zeros({ 1e12 })
