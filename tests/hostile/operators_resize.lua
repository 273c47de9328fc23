-- expect: error Tensor has no method or property `resize_`
require("xrun").ones({ 2 }):resize_({ 1e6 })
