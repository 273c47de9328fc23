-- expect: error there is no xrun.ops.load
require("xrun").ops.load("/lib/libc.so.6")
