-- expect: error may not be read
-- mixed_model is a folder here whose tokenizer.json is a link to one outside.
require("xrun").tokenizer("./mixed_model")
