-- expect: error 
require("xrun").ops.aten.from_file("@OUTSIDE@/new", true, 4096)
