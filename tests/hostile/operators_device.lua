-- expect: error CUDA
require("xrun").ones({ 2 }):to("cuda:99")
