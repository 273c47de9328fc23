-- expect: error is not for a recipe
require("xrun").ones({ 2 }):quantize_per_tensor(0, 0, "qint8")
