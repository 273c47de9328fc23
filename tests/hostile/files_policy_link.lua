-- expect: error may not be read
-- linked_model is a link to a folder outside.
require("xrun").policy("./linked_model")
