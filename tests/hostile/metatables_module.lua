-- expect: error read-only
require("xrun").policy = nil
