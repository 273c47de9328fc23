-- expect: error Tensor:sum: no overload takes
require("xrun").ones({ 2 }):sum({ 1e18 })
