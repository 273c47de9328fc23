-- expect: error encountering probability entry < 0
require("xrun").tensor({ -1.0, 0.5 }):multinomial(1e6, true)
