-- expect: error out of memory
require("xrun").arange(1e14)
