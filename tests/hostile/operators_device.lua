-- expect: error is not available: this process computes on the CPU
require("xrun").ones({ 2 }):to("cuda:99")
