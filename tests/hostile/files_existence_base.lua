-- expect: error may not be read
-- The base of the adapter is a path outside, and nothing is there.
require("xrun").policy("./outside_adapter")
