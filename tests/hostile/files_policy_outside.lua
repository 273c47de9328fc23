-- expect: error may not be read
require("xrun").policy("@OUTSIDE@/model")
