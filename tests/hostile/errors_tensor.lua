-- expect: error f32[2] cpu
error(require("xrun").ones({ 2 }))
