-- expect: error may not be read
require("xrun").tokenizer("@OUTSIDE@/model")
