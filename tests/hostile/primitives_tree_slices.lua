-- expect: error node_lengths[0] is 1000000000000000
require("xrun").tree_slices({ 1e15, -1 }, { { 7 } })
