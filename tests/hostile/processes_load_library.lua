-- expect: error 
require("xrun").ops.load("/lib/libc.so.6")
